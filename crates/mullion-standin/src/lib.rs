//! The parts of a stand-in: what makes a system container with Wine look like a Windows machine from outside.
//!
//! ```text
//! SSH ──► sshd ──┬─► shell ─► Wine's cmd.exe             kubelet.exe ─► cri ─► containerd
//!                └─► sftp ──► drive C:, a folder                        (Linux containers)
//! ```
//!
//! - [`shell`] is the login shell: `cmd`, with its quoting, its exit codes, its line ends.
//! - [`sftp`] is the subsystem: Windows paths, names without regard to case, nothing but the drive.
//! - [`cri`] is the gateway between the Windows kubelet and a Linux container runtime.
//!
//! [`path`] reads Windows paths, [`drive`] finds them in the drive's folder, [`settings`] is the file of the first two.
//! What a stand-in shows is no proof about Windows: containers are Linux programs under the names of Windows images.
//!
//! # Current limitations
//!
//! - There is drive `C:` only. Other drives, shares and named pipes are refused, in mounts too.
//! - Fields of messages that this interface's version does not have are kept only in calls that need no change.
//! - Credential specifications (GMSA), devices, the size of a container's drive and processor affinity are ignored.
//! - A container's program is one of Linux; of Windows' command lines only `cmd` itself is translated.
//! - The Linux runtime has to manage control groups itself: a pod's is a path, not a unit of systemd.
//! - Exit codes have eight bits, as every program of a Unix has.
//! - An image of the table is known by the whole reference of its entry: one that a pod names by digest needs an entry
//!   with it.
//! - An image that holds Windows alone, and for which nothing stands in, cannot run.
//! - The table of images is read once, when the gateway starts.

pub mod cri;
pub mod drive;
#[doc(hidden)]
pub mod fuzz;
pub mod path;
pub mod settings;
pub mod sftp;
pub mod shell;
