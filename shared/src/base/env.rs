//! The environment variables of the process.

/// The value of an environment variable. `None` if the variable is not set or is empty.
#[expect(
    clippy::disallowed_methods,
    reason = "only this function reads the environment"
)]
pub fn env_var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
