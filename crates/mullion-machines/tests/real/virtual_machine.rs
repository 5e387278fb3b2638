//! Tests that need another kernel than this computer's: in a virtual machine that boots Debian's, with this computer's
//! files, which it cannot change.

use std::process::Command;

/// Gets a kernel and the programs that this computer lacks, below the folder that it is called with, and boots: the
/// virtual machine has this computer's root folder with a layer in memory over it, and runs the test that is named.
///
/// Without an accelerator, so that it is the same wherever it runs.
const BOOT: &str = r#"
set -eu
cd "$1"; program=$2; test=$3
image=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
version=${image#linux-image-}
apt-get install --no-install-recommends --print-uris -y \
  qemu-system-x86 busybox-static quota xfsprogs cpio kmod "$image" > addresses
mkdir packages guest
sed -n "s/^'\([^']*\)' \([^ ]*\) .*/\1 \2/p" addresses | while read -r address name; do
  /usr/lib/apt/apt-helper -qq download-file "$address" "packages/$name" >/dev/null
  dpkg -x "packages/$name" tree
  case $name in linux-image-*|qemu-*|systemd*|udev*|libudev*|libsystemd*) ;; *) dpkg -x "packages/$name" guest ;; esac
done
if [ -L /lib ]; then
  for folder in bin sbin lib; do
    [ -d guest/$folder ] || continue
    mkdir -p guest/usr/$folder
    cp -a guest/$folder/. guest/usr/$folder/
    rm -r guest/$folder
  done
fi
export PATH="$PATH:$PWD/tree/bin:$PWD/tree/sbin:$PWD/tree/usr/bin:$PWD/tree/usr/sbin"
export LD_LIBRARY_PATH="$PWD/tree/usr/lib/x86_64-linux-gnu:$PWD/tree/lib/x86_64-linux-gnu"
depmod -b "$PWD/tree" "$version"
mkdir -p start/bin start/modules
cp "$(command -v busybox)" start/bin/busybox
number=100
for module in virtio_pci 9pnet_virtio 9p overlay loop ext4 quota_v2 xfs bridge nf_tables nft_ct nft_chain_nat nft_masq; do
  modprobe -d "$PWD/tree" -S "$version" --show-depends $module | sed -n 's/^insmod \([^ ]*\).*/\1/p'
done | awk '!seen[$0]++' | while read -r file; do
  cp "$file" start/modules/$number-${file##*/}
  number=$((number + 1))
done
cat > start/init <<END
#!/bin/busybox sh
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /low /layer /new
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
for module in /modules/*; do insmod \$module; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose computer /low
mount -t tmpfs -o size=2g t /layer; mkdir /layer/upper /layer/work
mount -t overlay o -o lowerdir=/low,upperdir=/layer/upper,workdir=/layer/work /new
mount -t proc p /new/proc; mount -t sysfs s /new/sys; mount -t devtmpfs d /new/dev
mount -t cgroup2 c /new/sys/fs/cgroup
mount -t tmpfs t /new/run; mount -t tmpfs -o size=2g t /new/tmp
cd /low$PWD/guest && tar c . | (cd /new && tar x)
cd /
mount -t tmpfs t /new/mnt; cp /low$program /new/mnt/test
MULLION_TEST_QUOTAS=1 PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot /new /mnt/test --ignored --nocapture $test
echo "the test ended with \$?"
poweroff -f
END
chmod +x start/init
(cd start && find . | cpio --quiet -o -H newc) > start.cpio
timeout 600 qemu-system-x86_64 -L tree/usr/share/qemu -L tree/usr/share/seabios -L /usr/share/qemu -accel tcg,thread=multi \
  -cpu max -m 2500 -smp 2 -nodefaults -no-reboot -display none -serial stdio -kernel "tree/boot/vmlinuz-$version" \
  -initrd start.cpio -append "console=ttyS0 quiet panic=-1" \
  -virtfs local,path=/,mount_tag=computer,security_model=none,readonly=on,multidevs=remap < /dev/null
"#;

#[test]
#[ignore = "boots a virtual machine of packages that it downloads; cargo xtask test --slow runs it"]
fn disks_are_held_to_their_size_by_debians_kernel() {
    if !cfg!(target_arch = "x86_64") || Command::new("apt-get").arg("--version").output().is_err() {
        println!("it takes packages of Debian for x86_64");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("bash")
        .args(["-c", BOOT, "boot"])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .arg("promise_13_a_disk_is_held_to_its_size_where_the_file_system_can")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(said.contains("the test ended with 0"), "{said}\n{errors}");
    assert!(said.contains("held by project quotas: ext4 true"), "{said}");
}
