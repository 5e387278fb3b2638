//! Containers.

use super::sandbox::{namespaces, usual_runtime};
use super::{Map, Refusal, command};
use crate::cri::images::{Found, is_number};
use crate::cri::v1::{
    CheckpointContainerRequest, Container, ContainerConfig, ContainerEventResponse,
    ContainerStatus, ContainerStatusResponse, CreateContainerRequest, ImageSpec, Int64Value,
    LinuxContainerConfig, LinuxContainerSecurityContext, ListContainersResponse, Mount,
    StreamContainersResponse, UpdateContainerResourcesRequest, WindowsContainerSecurityContext,
};
use crate::path::{DrivePath, relative};

/// Where the drive is in a `HostProcess` container: its programs see the machine's drive.
const DRIVE_INSIDE: &str = "/mnt/c";

/// Files that Windows has in another place than Linux.
const ELSEWHERE: [(&str, &str); 1] = [(r"C:\Windows\System32\drivers\etc\hosts", "/etc/hosts")];

/// The user and group that Windows' `ContainerUser` becomes: anybody but root.
const CONTAINER_USER: i64 = 1000;

/// A path inside a container, for Linux.
fn inside(text: &str) -> Result<String, Refusal> {
    let path = DrivePath::parse(text)?;
    let windows = path.windows();
    let elsewhere = ELSEWHERE
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(&windows));
    Ok(elsewhere.map_or_else(|| path.linux(), |(_, linux)| (*linux).to_owned()))
}

/// A path inside a container, as Windows names it.
fn inside_back(path: &str) -> String {
    let elsewhere = ELSEWHERE.iter().find(|(_, linux)| *linux == path);
    elsewhere.map_or_else(
        || DrivePath::from_linux(path).windows(),
        |(windows, _)| (*windows).to_owned(),
    )
}

/// Whom a container runs as, by the name that Windows has for it.
fn user(context: &mut LinuxContainerSecurityContext, name: &str, is_host_process: bool) {
    let plain = name.rsplit('\\').next().unwrap_or(name);
    let is = |known: &str| plain.eq_ignore_ascii_case(known);
    let number = |value| Some(Int64Value { value });
    let of_system = name
        .split_once('\\')
        .is_some_and(|(domain, _)| domain.eq_ignore_ascii_case("NT AUTHORITY"));
    if is_host_process || of_system || is("ContainerAdministrator") {
        context.run_as_user = number(0);
    } else if is("ContainerUser") {
        context.run_as_user = number(CONTAINER_USER);
        context.run_as_group = number(CONTAINER_USER);
    } else {
        // Empty is the image's own; any other must be in the image, as on Windows.
        plain.clone_into(&mut context.run_as_username);
    }
}

impl Map {
    fn mount(&self, mount: &mut Mount) -> Result<(), Refusal> {
        let linux = inside(&mount.container_path)?;
        if linux == "/" {
            return Err(Refusal::WholeDrive(mount.container_path.clone()));
        }
        let image = mount
            .image
            .take()
            .map(|image| self.image_to_run(image, false))
            .transpose()?;
        *mount = Mount {
            container_path: linux,
            host_path: self.to_machine(&mount.host_path)?,
            readonly: mount.readonly,
            image_sub_path: mount.image_sub_path.replace('\\', "/"),
            image,
            // Relabelling, propagation and owners are Linux' own.
            ..Mount::default()
        };
        Ok(())
    }

    /// An image that a container is made of, by the name of what stands in for it.
    fn image_to_run(&self, mut image: ImageSpec, is_any_build: bool) -> Result<ImageSpec, Refusal> {
        usual_runtime(&mut image.runtime_handler);
        let asked = if image.user_specified_image.is_empty() {
            &image.image
        } else {
            &image.user_specified_image
        };
        if is_number(asked) {
            return Ok(image);
        }
        let local = match self.images.find(asked, self.host) {
            Found::Fits(found) => &found.local,
            Found::OtherBuild(found) if is_any_build => &found.local,
            Found::OtherBuild(_) | Found::LinuxOnly | Found::Unknown => {
                return Err(Refusal::OtherSystem {
                    image: asked.clone(),
                });
            }
        };
        if !is_number(&image.image) {
            image.image.clone_from(local);
        }
        Ok(image)
    }

    /// What the image itself would run, where what stands in for it is another image and would run something else.
    fn own_command(&self, image: &ImageSpec, config: &mut ContainerConfig) {
        let asked = [&image.user_specified_image, &image.image];
        let asked = asked.into_iter().find(|name| !name.is_empty());
        let found = asked.map(|name| self.images.find(name, self.host));
        let (Some(Found::Fits(row) | Found::OtherBuild(row)), true) =
            (found, config.command.is_empty())
        else {
            return;
        };
        if !row.command.is_empty() {
            config.command = if config.args.is_empty() {
                row.command.clone()
            } else {
                std::mem::take(&mut config.args)
            };
        }
    }

    fn container(&self, config: &mut ContainerConfig) -> Result<(), Refusal> {
        let windows = config.windows.take().unwrap_or_default();
        let context = windows.security_context.unwrap_or_default();
        let WindowsContainerSecurityContext {
            run_as_username,
            host_process: is_host_process,
            ..
        } = context;
        let image = config.image.take().ok_or(Refusal::Missing("image"))?;
        self.own_command(&image, config);
        config.image = Some(self.image_to_run(image, is_host_process)?);
        config.log_path = relative(&config.log_path)?;
        if !config.working_dir.is_empty() {
            config.working_dir = inside(&config.working_dir)?;
        }
        if !config.command.is_empty() {
            let mut words = std::mem::take(&mut config.command);
            words.append(&mut config.args);
            config.command = command::linux(words);
        }
        for mount in &mut config.mounts {
            self.mount(mount)?;
        }
        if is_host_process {
            config.mounts.push(Mount {
                container_path: DRIVE_INSIDE.into(),
                host_path: self.drive.clone(),
                ..Mount::default()
            });
        }
        // Windows' devices are named by classes that Linux does not know.
        config.devices.clear();
        let mut linux = LinuxContainerSecurityContext {
            privileged: is_host_process,
            namespace_options: Some(namespaces(is_host_process)),
            ..LinuxContainerSecurityContext::default()
        };
        user(&mut linux, &run_as_username, is_host_process);
        config.linux = Some(LinuxContainerConfig {
            resources: Some(self.linux_resources(&windows.resources.unwrap_or_default())),
            security_context: Some(linux),
        });
        Ok(())
    }

    /// `CreateContainer`
    pub(in crate::cri) fn create(
        &self,
        request: &mut CreateContainerRequest,
    ) -> Result<(), Refusal> {
        let config = request.config.as_mut();
        self.container(config.ok_or(Refusal::Missing("container"))?)?;
        match request.sandbox_config.as_mut() {
            Some(sandbox) => self.sandbox(sandbox),
            None => Ok(()),
        }
    }

    /// `UpdateContainerResources`
    pub(in crate::cri) fn update(&self, request: &mut UpdateContainerResourcesRequest) {
        let windows = request.windows.take();
        request.linux = windows.map(|windows| self.linux_resources(&windows));
    }

    /// `CheckpointContainer`
    pub(in crate::cri) fn checkpoint(
        &self,
        request: &mut CheckpointContainerRequest,
    ) -> Result<(), Refusal> {
        request.location = self.to_machine(&request.location)?;
        Ok(())
    }

    /// A container's state, on the way back.
    pub(super) fn container_state(&self, status: &mut ContainerStatus) {
        status.log_path = self.to_windows(&status.log_path);
        status
            .mounts
            .retain(|mount| mount.container_path != DRIVE_INSIDE);
        for mount in &mut status.mounts {
            mount.host_path = self.to_windows(&mount.host_path);
            mount.container_path = inside_back(&mount.container_path);
            self.image_back(mount.image.as_mut());
        }
        self.image_back(status.image.as_mut());
        self.reference_back(&mut status.image_ref);
        if let Some(resources) = &mut status.resources {
            self.resources_back(resources);
        }
        status.user = None;
    }

    /// `ContainerStatus`
    pub(in crate::cri) fn container_status(&self, response: &mut ContainerStatusResponse) {
        if let Some(status) = &mut response.status {
            self.container_state(status);
        }
    }

    /// `GetContainerEvents`
    pub(in crate::cri) fn event(&self, event: &mut ContainerEventResponse) {
        self.pod(
            event.pod_sandbox_status.as_mut(),
            &mut event.containers_statuses,
        );
    }

    fn listed(&self, containers: &mut [Container]) {
        for container in containers {
            self.image_back(container.image.as_mut());
            self.reference_back(&mut container.image_ref);
        }
    }

    /// `ListContainers`
    pub(in crate::cri) fn containers(&self, response: &mut ListContainersResponse) {
        self.listed(&mut response.containers);
    }

    /// `StreamContainers`
    pub(in crate::cri) fn container_stream(&self, response: &mut StreamContainersResponse) {
        self.listed(&mut response.containers);
    }
}

#[cfg(test)]
mod tests;
