//! Debian's packages.

use std::time::Duration;

use mullion_wire::Package;

use super::super::{
    Files as _, PackageLists, Packages, Program, Programs as _, SystemError, run_well,
};
use super::Linux;

/// Downloads through a slow proxy take their time.
const DEADLINE: Duration = Duration::from_mins(20);

/// Another package manager may be at work: a machine that just started updates itself.
const OPTIONS: &[&str] = &[
    "-o",
    "DPkg::Lock::Timeout=300",
    "-o",
    "Acquire::Retries=3",
    "-o",
    "Dpkg::Options::=--force-confdef",
    "-o",
    "Dpkg::Options::=--force-confold",
];

impl Packages for Linux {
    fn missing(&self, packages: &[Package]) -> Result<Vec<String>, SystemError> {
        let has_program = |package: &&Package| {
            let program = package.program.as_deref();
            program.is_none_or(|program| self.find_program(program).is_none())
        };
        let unseen: Vec<_> = packages.iter().filter(has_program).collect();
        if unseen.is_empty() {
            return Ok(Vec::new());
        }
        let mut installed = Vec::new();
        if self.find_program("dpkg-query").is_some() {
            let args = ["-W", "-f=${db:Status-Status} ${Package}\\n", "--"];
            let names = unseen.iter().map(|package| package.name.as_str());
            let query = Program::new("dpkg-query", args.into_iter().chain(names));
            // Its status only says that some of them are not known.
            self.run(&query, &mut |line| {
                installed.extend(line.strip_prefix("installed ").map(str::to_owned));
            })?;
        }
        let mut missing: Vec<_> = unseen
            .into_iter()
            .map(|package| package.name.clone())
            .filter(|name| !installed.contains(name))
            .collect();
        missing.sort();
        missing.dedup();
        Ok(missing)
    }

    fn precedes_packages(&self, path: &str) -> bool {
        path.starts_with("/etc/apt/")
    }

    fn install(
        &self,
        names: &[String],
        lists: PackageLists,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError> {
        if self.find_program("apt-get").is_none() {
            return Err(SystemError::NoPackages(names.to_vec()));
        }
        self.repair(on_line)?;
        let is_fresh = lists == PackageLists::Kept && self.has_lists()?;
        if !is_fresh {
            self.apt_get(&["update"], on_line)?;
        }
        let mut args = vec!["install", "--yes", "--no-install-recommends"];
        args.extend(names.iter().map(String::as_str));
        match self.apt_get(&args, on_line) {
            // The lists may be older than what the mirror still has.
            Err(SystemError::Failed { .. }) if is_fresh => {
                self.apt_get(&["update"], on_line)?;
                self.apt_get(&args, on_line)
            }
            result => result,
        }
    }
}

impl Linux {
    /// Finishes what a killed package manager left half done; it refuses any other work until then.
    fn repair(&self, on_line: &mut dyn FnMut(&str)) -> Result<(), SystemError> {
        let is_number = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
        if !self.list("/var/lib/dpkg/updates")?.iter().any(is_number) {
            return Ok(());
        }
        let program = Program::new("dpkg", ["--configure", "-a", "--force-confold"])
            .within(DEADLINE)
            .holding_lock();
        run_well(self, &program, on_line)
    }

    fn has_lists(&self) -> Result<bool, SystemError> {
        let names = self.list("/var/lib/apt/lists")?;
        Ok(names.iter().any(|name| name.contains("_Packages")))
    }

    fn apt_get(&self, args: &[&str], on_line: &mut dyn FnMut(&str)) -> Result<(), SystemError> {
        let args = OPTIONS.iter().chain(args).copied();
        let program = Program::new("apt-get", args)
            .within(DEADLINE)
            .holding_lock();
        run_well(self, &program, on_line)
    }
}
