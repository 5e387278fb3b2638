//! What a trace of a program's system calls tells of files that it changed.

use std::path::Path;

/// The calls that change files.
pub(crate) const WRITES: &str = "?open,?openat,?openat2,?creat,?mkdir,?mkdirat,?rename,?renameat,?renameat2,?unlink,?unlinkat,\
                      ?rmdir,?chown,?fchown,?lchown,?fchownat,?chmod,?fchmod,?fchmodat,?fchmodat2,?link,?linkat,\
                      ?symlink,?symlinkat,?utime,?utimes,?utimensat,?futimesat,?truncate,?ftruncate,?fallocate,?mknod,\
                      ?mknodat,?setxattr,?lsetxattr,?fsetxattr,?removexattr,?lremovexattr,?fremovexattr,?mount,\
                      ?umount2,?pivot_root,?swapon,?sethostname,?init_module,?finit_module,?delete_module";

/// The lines of a trace that tell of a change outside the kernel's own file systems, or of root's folder opened.
pub(crate) fn changes(trace: &str, outside: &Path) -> Vec<String> {
    let outside = format!("<{}", outside.display());
    let lines = trace.lines().filter(|line| {
        let Some((call, result)) = line.rsplit_once(" = ") else {
            return false;
        };
        if result.starts_with('-') {
            return false;
        }
        // What is opened by `O_PATH` can only be looked at; reading it takes another call, with the user's rights.
        if result.contains(&outside) && !call.contains("O_PATH") {
            return true;
        }
        let is_open = ["open(", "openat(", "openat2("]
            .iter()
            .any(|name| call.contains(name));
        let opens_to_write = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"]
            .iter()
            .any(|flag| call.contains(flag));
        // What was opened stands behind the result, what was changed by its descriptor within the call.
        let is_kernels = ["</dev/", "</memfd:", "<pipe:", "<socket:"]
            .iter()
            .any(|place| line.contains(place))
            || is_of_processes(line);
        // A file without a name, which apt works in, ends with the process that has it open.
        let is_nameless = call.contains("O_TMPFILE");
        (!is_open || opens_to_write) && !is_kernels && !is_nameless
    });
    lines.map(str::to_owned).collect()
}

/// Whether a line names files of processes, and no other file of `/proc`: those below `/proc/sys` are settings of the
/// computer.
fn is_of_processes(line: &str) -> bool {
    let mut owners = line.split("</proc/").skip(1).map(|path| {
        let name = path.split(['/', '>']).next().unwrap_or_default();
        name == "self" || name.parse::<u32>().is_ok()
    });
    owners
        .next()
        .is_some_and(|first| first && owners.all(|next| next))
}

#[test]
fn promise_03_a_trace_with_a_change_in_it_is_told_from_one_without() {
    let outside = Path::new("/x/outside");
    for good in [
        "1 openat(AT_FDCWD</x>, \"a\", O_RDONLY|O_CLOEXEC) = 3</x/a>",
        "1 openat(AT_FDCWD</x>, \"/dev/kvm\", O_RDWR) = 3</dev/kvm>",
        "1 mkdir(\"/x/b\", 0777) = -1 EACCES (Permission denied)",
        "1 openat(AT_FDCWD</x>, \"/proc/self/comm\", O_WRONLY|O_CLOEXEC) = 3</proc/71/comm>",
        "1 ftruncate(3</proc/self/comm>, 0) = 0",
        "1 ftruncate(5</memfd:firmware>(deleted), 65536) = 0",
        "1 +++ exited with 0 +++",
    ] {
        assert!(changes(good, outside).is_empty(), "{good}");
    }
    for bad in [
        "1 openat(AT_FDCWD</x>, \"a\", O_RDONLY|O_CLOEXEC) = 3</x/outside/a>",
        "1 openat(AT_FDCWD</x>, \"a\", O_WRONLY|O_CREAT|O_CLOEXEC, 0666) = 3</x/a>",
        "1 openat(AT_FDCWD</x>, \"/proc/sys/kernel/panic\", O_WRONLY|O_CLOEXEC) = 3</proc/sys/kernel/panic>",
        "1 openat(4</proc/71>, \"../sys/kernel/panic\", O_WRONLY|O_CLOEXEC) = 3</proc/sys/kernel/panic>",
        "1 mkdir(\"/x/b\", 0777) = 0",
        "1 fchown(3</x/a>, 0, 0) = 0",
        "1 unlink(\"/x/a\") = 0",
    ] {
        assert_eq!(changes(bad, outside).len(), 1, "{bad}");
    }
}
