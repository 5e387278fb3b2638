//! What a stand-in's registry says: which Windows it stands in for.

use std::fmt::Write as _;

/// Which Windows a stand-in stands in for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Face {
    /// The build: `20348`.
    pub build: u32,
    /// The revision: `3807`.
    pub revision: u32,
    /// The product's name: `Windows Server 2022 Datacenter`.
    pub product: String,
    /// The edition: `ServerDatacenter`.
    pub edition: String,
    /// Whether it has a desktop.
    pub desktop: bool,
}

const VERSION: &str = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\Windows NT\CurrentVersion";

enum Value<'a> {
    Text(&'a str),
    Number(u32),
}

/// The registry's file that makes a new prefix that Windows.
pub(crate) fn file(face: &Face) -> String {
    let build = face.build.to_string();
    let kind = if face.desktop {
        "Server"
    } else {
        "Server Core"
    };
    let mut text = String::from("Windows Registry Editor Version 5.00\r\n");
    let mut key = |name: &str, values: &[(&str, Value<'_>)]| {
        // Writing to a String cannot fail.
        let _ = write!(text, "\r\n[{name}]\r\n");
        for (name, value) in values {
            let _ = match value {
                Value::Text(value) => write!(text, "\"{name}\"=\"{}\"\r\n", escaped(value)),
                Value::Number(value) => write!(text, "\"{name}\"=dword:{value:08x}\r\n"),
            };
        }
    };
    key(
        VERSION,
        &[
            ("CurrentBuild", Value::Text(&build)),
            ("CurrentBuildNumber", Value::Text(&build)),
            ("CurrentMajorVersionNumber", Value::Number(10)),
            ("CurrentMinorVersionNumber", Value::Number(0)),
            ("CurrentVersion", Value::Text("6.3")),
            ("EditionID", Value::Text(&face.edition)),
            ("InstallationType", Value::Text(kind)),
            ("ProductName", Value::Text(&face.product)),
            ("UBR", Value::Number(face.revision)),
        ],
    );
    key(
        r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\ProductOptions",
        &[("ProductType", Value::Text("ServerNT"))],
    );
    // Kubelet asks for both: the machine's identity, and which start it is in. A machine replaces them when it starts.
    key(
        r"HKEY_LOCAL_MACHINE\SYSTEM\HardwareConfig",
        &[(
            "LastConfig",
            Value::Text("{4d756c6c-696f-6e20-7374-616e642d696e}"),
        )],
    );
    key(
        r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters",
        &[("BootId", Value::Number(0))],
    );
    // Wine has one that counts nothing, one that fails where Go asks, and one that forgets what the firewall is told;
    // ours lie beside the system's files.
    key(
        r"HKEY_CURRENT_USER\Software\Wine\DllOverrides",
        &[
            ("hnetcfg", Value::Text("native,builtin")),
            ("iphlpapi", Value::Text("native,builtin")),
            ("pdh", Value::Text("native,builtin")),
        ],
    );
    text
}

fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_says_which_windows_it_is() {
        let face = Face {
            build: 20348,
            revision: 3807,
            product: "Windows Server 2022 \"Datacenter\"".into(),
            edition: "ServerDatacenter".into(),
            desktop: false,
        };
        let text = file(&face);
        for line in [
            r"[HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\Windows NT\CurrentVersion]",
            "\"CurrentBuildNumber\"=\"20348\"",
            "\"UBR\"=dword:00000edf",
            r#""ProductName"="Windows Server 2022 \"Datacenter\"""#,
            "\"InstallationType\"=\"Server Core\"",
        ] {
            assert!(text.contains(&format!("{line}\r\n")), "{line}: {text}");
        }
        assert!(
            file(&Face {
                desktop: true,
                ..face
            })
            .contains("\"Server\"")
        );
    }
}
