//! Tries an accelerator of virtual machines, since a device that is there may still be unusable.
//!
//! A virtual machine can often be *made* where it cannot be *used*: some kernels carry out each of its instructions
//! one by one. So a firmware of a few instructions is run: it goes to 64-bit mode, counts down from 2²⁷ and leaves.
//! Real acceleration takes a tenth of a second for it, emulation by the kernel minutes.

use std::collections::BTreeMap;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use mullion_catalog::Accelerator;
use rustix::fs::{MemfdFlags, memfd_create};

use super::super::computer::AcceleratorFound;
use super::Place;
use super::programs::{Answer, Question};

/// The firmware's size. It ends at 4 GiB, so that its last 16 bytes are where a processor starts.
const SIZE: usize = 0x1_0000;

/// The parts of the firmware that are not zero, with their offsets. Its first byte is at 0xFFFF0000.
const PARTS: &[(usize, &[u8])] = &[
    // Page tables, three levels, marked as accessed: a read-only memory cannot be marked later.
    (0x0000, &0xFFFF_1023_u64.to_le_bytes()),
    (0x1018, &0xFFFF_2023_u64.to_le_bytes()),
    // The last 2 MiB below 4 GiB, at their own addresses.
    (0x2FF8, &0xFFE0_00E3_u64.to_le_bytes()),
    // Segments: none, 32-bit code, data, 64-bit code.
    (0xFF08, &0x00CF_9B00_0000_FFFF_u64.to_le_bytes()),
    (0xFF10, &0x00CF_9300_0000_FFFF_u64.to_le_bytes()),
    (0xFF18, &0x00AF_9B00_0000_FFFF_u64.to_le_bytes()),
    // Where the segments are: 32 bytes at 0xFFFFFF00.
    (0xFF20, &[0x1F, 0x00, 0x00, 0xFF, 0xFF, 0xFF]),
    (
        0xFF26,
        &[
            0xFA, // cli
            0x2E, 0x66, 0x0F, 0x01, 0x16, 0x20, 0xFF, // lgdtl %cs:0xFF20
            0x0F, 0x20, 0xC0, // mov %cr0, %eax
            0x0C, 0x01, // or $1, %al: protected mode
            0x0F, 0x22, 0xC0, // mov %eax, %cr0
            0x66, 0xEA, 0x3E, 0xFF, 0xFF, 0xFF, 0x08,
            0x00, // ljmpl $8, $0xFFFFFF3E: the next line
            0x66, 0xB8, 0x10, 0x00, // mov $16, %ax
            0x8E, 0xD8, // mov %ax, %ds
            0x8E, 0xD0, // mov %ax, %ss
            0x0F, 0x20, 0xE0, // mov %cr4, %eax
            0x0C, 0x20, // or $0x20, %al: physical address extension
            0x0F, 0x22, 0xE0, // mov %eax, %cr4
            0xB8, 0x00, 0x00, 0xFF, 0xFF, // mov $0xFFFF0000, %eax: the page tables
            0x0F, 0x22, 0xD8, // mov %eax, %cr3
            0xB9, 0x80, 0x00, 0x00, 0xC0, // mov $0xC0000080, %ecx: the extended features
            0x0F, 0x32, // rdmsr
            0x80, 0xCC, 0x01, // or $1, %ah: long mode
            0x0F, 0x30, // wrmsr
            0x0F, 0x20, 0xC0, // mov %cr0, %eax
            0x0D, 0x00, 0x00, 0x00, 0x80, // or $0x80000000, %eax: paging
            0x0F, 0x22, 0xC0, // mov %eax, %cr0
            0xEA, 0x74, 0xFF, 0xFF, 0xFF, 0x18, 0x00, // ljmp $24, $0xFFFFFF74: the next line
            0xB9, 0x00, 0x00, 0x00, 0x08, // mov $0x8000000, %ecx
            0xFF, 0xC9, // dec %ecx
            0x75, 0xFC, // jnz: back to the line before
            0xB0, 0x10, // mov $16, %al: the exit status is twice that and one more
            0xE6, 0xF4, // out %al, $0xF4: the debug port
            0xF4, // hlt
            0xEB, 0xFD, // jmp: back to the line before
        ],
    ),
    // Where the processor starts: jmp to 0xFF26.
    (0xFFF0, &[0xE9, 0x33, 0xFF]),
];

fn firmware() -> Vec<u8> {
    let mut image = vec![0; SIZE];
    for (offset, part) in PARTS {
        image[*offset..offset + part.len()].copy_from_slice(part);
    }
    image
}

impl Place<'_> {
    pub(super) fn try_accelerator(
        &self,
        accelerator: &Accelerator,
        program: Option<&Path>,
    ) -> AcceleratorFound {
        if !self.has(&accelerator.device) {
            return AcceleratorFound::Absent;
        }
        let device = self.at(&accelerator.device);
        // Opened as the emulator opens it; closed again at once.
        if let Err(error) = fs_err::OpenOptions::new()
            .read(true)
            .write(true)
            .open(device)
        {
            return AcceleratorFound::Refused(error.kind().to_string());
        }
        match program {
            Some(program) => self
                .run_firmware(accelerator, program)
                .unwrap_or(AcceleratorFound::Opened),
            None => AcceleratorFound::Opened,
        }
    }

    /// None where the firmware could not be laid down, which says nothing about the accelerator.
    fn run_firmware(&self, accelerator: &Accelerator, program: &Path) -> Option<AcceleratorFound> {
        // In memory, so that nothing is left behind however this ends. The emulator opens it through our process.
        let memory = memfd_create("firmware", MemfdFlags::CLOEXEC).ok()?;
        let mut file = std::fs::File::from(memory);
        file.write_all(&firmware()).ok()?;
        file.rewind().ok()?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let arguments: Vec<_> = accelerator
            .arguments
            .iter()
            .map(|text| text.replace("{firmware}", &path))
            .collect();
        let answer = self.programs.ask(&Question {
            program,
            arguments: &arguments,
            environment: &BTreeMap::new(),
            deadline: Duration::from_secs(accelerator.deadline_seconds),
        });
        Some(match answer {
            Answer::Exited { status, .. } if status == Some(accelerator.proven_exit) => {
                AcceleratorFound::Proven
            }
            Answer::Exited {
                status, complaint, ..
            } => {
                let last = complaint.lines().rfind(|line| !line.trim().is_empty());
                let ended = || match status {
                    Some(status) => format!("the virtual machine ended with status {status}"),
                    None => "the virtual machine was ended by a signal".to_owned(),
                };
                AcceleratorFound::Failed(last.map_or_else(ended, str::to_owned))
            }
            Answer::TooSlow => AcceleratorFound::TooSlow(accelerator.deadline_seconds),
            Answer::NotStarted(reason) => AcceleratorFound::Failed(reason),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_do_not_overlap_and_fit() {
        let mut end = 0;
        for (offset, part) in PARTS {
            assert!(*offset >= end, "{offset:#x}");
            end = offset + part.len();
        }
        assert!(end <= SIZE);
        assert_eq!(firmware().len(), SIZE);
    }

    /// The far jumps lead to the instruction after them: the addresses in them are counted by hand.
    #[test]
    fn jumps_lead_where_the_comments_say() {
        let image = firmware();
        assert_eq!(image[0xFF3E..0xFF42], [0x66, 0xB8, 0x10, 0x00]);
        assert_eq!(image[0xFF74..0xFF79], [0xB9, 0x00, 0x00, 0x00, 0x08]);
        let jump = i16::from_le_bytes([image[0xFFF1], image[0xFFF2]]);
        assert_eq!(0xFFF3 + i32::from(jump), 0xFF26);
    }
}
