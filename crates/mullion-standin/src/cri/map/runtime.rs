//! The runtime itself: what it says of itself, commands in containers, and where streams are.

use super::sandbox::WINDOWS_RUNTIME;
use super::{Map, command};
use crate::cri::v1::{
    AttachResponse, ExecRequest, ExecResponse, ExecSyncRequest, PortForwardResponse,
    RuntimeConfigResponse, RuntimeHandler, RuntimeHandlerFeatures, StatusResponse, VersionResponse,
};

/// Addresses that mean every address: nobody can connect to them from Windows.
const EVERYWHERE: [&str; 2] = ["0.0.0.0", "[::]"];

/// A stream's address on loopback, where kubelet.exe is too.
fn on_loopback(url: &mut String) {
    for everywhere in EVERYWHERE {
        let with_port = format!("//{everywhere}:");
        if let Some(place) = url.find(&with_port) {
            url.replace_range(place..place + with_port.len(), "//127.0.0.1:");
            return;
        }
    }
}

/// `Version`
pub(in crate::cri) fn version(response: &mut VersionResponse) {
    response.runtime_name = "containerd".into();
}

/// `RuntimeConfig`. Windows has no control groups.
pub(in crate::cri) fn runtime_config(response: &mut RuntimeConfigResponse) {
    response.linux = None;
}

/// `ExecSync`
pub(in crate::cri) fn exec_sync(request: &mut ExecSyncRequest) {
    request.cmd = command::linux(std::mem::take(&mut request.cmd));
}

/// `Exec`
pub(in crate::cri) fn exec(request: &mut ExecRequest) {
    request.cmd = command::linux(std::mem::take(&mut request.cmd));
}

/// `Exec`
pub(in crate::cri) fn exec_at(response: &mut ExecResponse) {
    on_loopback(&mut response.url);
}

/// `Attach`
pub(in crate::cri) fn attach_at(response: &mut AttachResponse) {
    on_loopback(&mut response.url);
}

/// `PortForward`
pub(in crate::cri) fn forward_at(response: &mut PortForwardResponse) {
    on_loopback(&mut response.url);
}

impl Map {
    /// `Status`. The runtimes are Windows', and what Linux can do beside is not told.
    pub(in crate::cri) fn status(&self, response: &mut StatusResponse) {
        if !response.runtime_handlers.is_empty() {
            let handler = |name: &str| RuntimeHandler {
                name: name.into(),
                features: Some(RuntimeHandlerFeatures::default()),
            };
            response.runtime_handlers = vec![handler(""), handler(WINDOWS_RUNTIME)];
        }
        response.features = None;
        if !response.info.is_empty() {
            let system = format!(
                r#"{{"os":"windows","os.version":"{}","standIn":true}}"#,
                self.host
            );
            response.info.insert("system".into(), system);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::map;
    use super::*;
    use crate::cri::v1::{LinuxRuntimeConfiguration, RuntimeFeatures};

    #[test]
    fn streams_are_on_loopback() {
        for (url, expected) in [
            (
                "http://127.0.0.1:34567/exec/a",
                "http://127.0.0.1:34567/exec/a",
            ),
            (
                "http://0.0.0.0:34567/exec/a",
                "http://127.0.0.1:34567/exec/a",
            ),
            ("http://[::]:34567/exec/a", "http://127.0.0.1:34567/exec/a"),
            ("http://10.99.0.21:1/exec/a", "http://10.99.0.21:1/exec/a"),
            (
                "https://127.0.0.1:1//0.0.0.0/a",
                "https://127.0.0.1:1//0.0.0.0/a",
            ),
            ("", ""),
        ] {
            let mut response = ExecResponse { url: url.into() };
            exec_at(&mut response);
            assert_eq!(response.url, expected);
            let mut response = AttachResponse { url: url.into() };
            attach_at(&mut response);
            assert_eq!(response.url, expected);
            let mut response = PortForwardResponse { url: url.into() };
            forward_at(&mut response);
            assert_eq!(response.url, expected);
        }
    }

    #[test]
    fn the_runtime_is_one_of_windows() {
        let mut status = StatusResponse {
            runtime_handlers: vec![RuntimeHandler {
                name: "runc".into(),
                features: Some(RuntimeHandlerFeatures {
                    user_namespaces: true,
                    ..RuntimeHandlerFeatures::default()
                }),
            }],
            features: Some(RuntimeFeatures {
                supplemental_groups_policy: true,
                ..RuntimeFeatures::default()
            }),
            info: [("golang".to_owned(), "go1.26".to_owned())].into(),
            ..StatusResponse::default()
        };
        map().status(&mut status);
        let names: Vec<_> = status
            .runtime_handlers
            .iter()
            .map(|handler| handler.name.as_str())
            .collect();
        assert_eq!(names, ["", "runhcs-wcow-process"]);
        assert!(
            status
                .runtime_handlers
                .iter()
                .all(|handler| handler.features == Some(RuntimeHandlerFeatures::default()))
        );
        assert_eq!(status.features, None);
        assert_eq!(
            status.info["system"],
            r#"{"os":"windows","os.version":"10.0.20348.3807","standIn":true}"#
        );
        let mut config = RuntimeConfigResponse {
            linux: Some(LinuxRuntimeConfiguration::default()),
        };
        runtime_config(&mut config);
        assert_eq!(config, RuntimeConfigResponse::default());
    }

    #[test]
    fn commands_of_windows_are_run_by_sh() {
        let words = ["cmd", "/c", "exit 1"].map(String::from).to_vec();
        let mut sync = ExecSyncRequest {
            cmd: words.clone(),
            ..ExecSyncRequest::default()
        };
        exec_sync(&mut sync);
        let mut exec = ExecRequest {
            cmd: words,
            tty: true,
            ..ExecRequest::default()
        };
        super::exec(&mut exec);
        assert_eq!(sync.cmd, ["/bin/sh", "-c", "exit 1"]);
        assert_eq!(exec.cmd, sync.cmd);
        assert!(exec.tty);
    }
}
