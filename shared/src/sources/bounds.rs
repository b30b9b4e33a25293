//! The limits that a deployment sets for a configuration from the inbox table.
//!
//! Whoever may change the configuration at run time chooses where Mitt sends events. So the hosts
//! come from the deployment, and a configuration can only select among them.

use anyhow::{Error, anyhow};

use super::{Config, Forward};
use crate::base::setting_path::At as _;
use crate::base::toml_error::{line_of, refused};

/// The hosts that a configuration from the inbox table may allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    hosts: Vec<String>,
    /// Whether the configuration may allow `http://` URLs of this machine.
    loopback: bool,
}

impl Bounds {
    /// Reads the stack parameter `AllowedHosts`: host names, separated by commas. `*.example.com`
    /// stands for all hosts below `example.com`. An empty list stands for the hosts of the
    /// built-in configuration.
    pub fn new(allowed: &str, built_in: &Config) -> Self {
        let forward = &built_in.forward;
        let mut bounds = Self::of(allowed, forward.allow_loopback);
        if bounds.hosts.is_empty() {
            bounds.hosts.clone_from(&forward.allow_hosts);
        }
        bounds
    }

    /// Returns the limits with exactly these hosts, which commas separate.
    pub fn of(hosts: &str, loopback: bool) -> Self {
        let hosts = hosts.split(',').map(str::trim);
        let hosts = hosts.filter(|host| !host.is_empty());
        Self {
            hosts: hosts.map(str::to_owned).collect(),
            loopback,
        }
    }

    /// Also allows URLs of this machine, for a function that runs on a developer's machine.
    #[must_use]
    pub fn or_loopback(self, loopback: bool) -> Self {
        Self {
            loopback: self.loopback || loopback,
            ..self
        }
    }

    /// Returns the allowed hosts, separated by commas.
    pub fn hosts(&self) -> String {
        self.hosts.join(",")
    }

    /// Returns whether URLs of this machine are allowed.
    pub fn loopback(&self) -> bool {
        self.loopback
    }

    /// Checks the hosts of a configuration. The error names the line, and contains no value that
    /// may be a secret.
    pub(super) fn check(&self, forward: &Forward, text: &str) -> anyhow::Result<()> {
        let Some(error) = self.errors(forward).into_iter().next() else {
            return Ok(());
        };
        let refused = forward.allow_hosts.iter().find(|host| !self.allows(host));
        let value = refused.map_or("allow_loopback", String::as_str);
        Err(at_line_of(value, &error, text))
    }

    /// Returns an error for each setting that the limits do not allow.
    pub(super) fn errors(&self, forward: &Forward) -> Vec<Error> {
        let hosts = forward.allow_hosts.iter().enumerate();
        let refused = hosts.filter(|(_, host)| !self.allows(host));
        let mut errors: Vec<Error> = refused
            .filter_map(|(index, host)| {
                let error = anyhow!(
                    "forward.allow_hosts: the deployment does not allow the host {host:?}; add it \
                     to the stack parameter AllowedHosts, or remove it"
                );
                let error = Err::<(), _>(error)
                    .at(index)
                    .at("allow_hosts")
                    .at("forward");
                error.err()
            })
            .collect();
        if forward.allow_loopback && !self.loopback {
            let error = anyhow!(
                "forward.allow_loopback: the deployment does not allow URLs of this machine; \
                 remove allow_loopback"
            );
            errors.extend(Err::<(), _>(error).at("allow_loopback").at("forward").err());
        }
        errors
    }

    fn allows(&self, host: &str) -> bool {
        self.hosts.iter().any(|allowed| {
            let below = allowed.strip_prefix("*.").and_then(|domain| {
                let name = host.strip_suffix(domain)?.strip_suffix('.')?;
                Some(!name.is_empty())
            });
            below.unwrap_or(allowed == host)
        })
    }
}

fn at_line_of(value: &str, error: &Error, text: &str) -> Error {
    let said = refused(error, text);
    match line_of(text, value) {
        Some(line) if !said.starts_with("line ") => anyhow!("line {line}: {said}"),
        _ => Error::msg(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(hosts: &[&str], more: &str) -> String {
        format!("schema = 1\n[forward]\nallow_hosts = {hosts:?}\n{more}\n")
    }

    fn refusal(bounds: &Bounds, text: &str) -> Option<String> {
        let error = Config::parse_within(text, bounds).err()?;
        Some(format!("{error:#}"))
    }

    #[test]
    fn a_configuration_allows_only_hosts_of_the_deployment() {
        let built_in = Config::parse(&file(&["a.example"], "")).unwrap();
        let bounds = Bounds::new(" hooks.example.com, *.shop.example ", &built_in);
        assert_eq!(bounds.hosts(), "hooks.example.com,*.shop.example");
        for host in ["hooks.example.com", "x.shop.example", "x.y.shop.example"] {
            assert_eq!(refusal(&bounds, &file(&[host], "")), None, "{host}");
        }
        for host in [
            "a.example",
            "shop.example",
            ".shop.example",
            "evilshop.example",
            "hooks.example.com.evil.example",
            "*.shop.example.evil",
            "",
        ] {
            let said = refusal(&bounds, &file(&[host], "")).unwrap();
            assert!(said.contains("AllowedHosts"), "{host}: {said}");
            assert!(host.is_empty() || said.starts_with("line 3: "), "{said}");
        }
    }

    #[test]
    fn without_a_list_the_built_in_hosts_are_the_limit() {
        let built_in = Config::parse(&file(&["a.example"], "")).unwrap();
        let bounds = Bounds::new("", &built_in);
        assert_eq!(refusal(&bounds, &file(&["a.example"], "")), None);
        assert!(refusal(&bounds, &file(&["b.example"], "")).is_some());
        let loopback = file(&[], "allow_loopback = true");
        let said = refusal(&bounds, &loopback).unwrap();
        assert!(said.contains("allow_loopback"), "{said}");
        let local = Bounds::new("", &Config::parse(&loopback).unwrap());
        assert_eq!(refusal(&local, &loopback), None);
    }
}
