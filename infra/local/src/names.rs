//! Names on this machine: the fake account, ARNs and physical names.

/// The Region of the emulated stack.
pub const REGION: &str = "us-east-1";
/// The account of the emulated stack.
pub const ACCOUNT: &str = "000000000000";
/// The emulators do not check credentials. ministack gives the key `test` all permissions.
pub const ACCESS_KEY: &str = "test";
pub const SECRET_KEY: &str = "test";
/// The role of callers of a route with IAM authorization that name no other role.
pub const LOCAL_WORKER: &str = "local-worker";
/// The name of the local stack, and the first part of its secrets' paths: `/mitt/ingress`.
pub const STACK_NAME: &str = "mitt";

pub(crate) fn arn(service: &str, resource: &str) -> String {
    format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}")
}

/// Returns a random id in AWS's format: `8f14e45f-ceea-467f-9b1c-2d3f5a6b7c8d`.
pub fn random_id() -> String {
    let hex = random_hex(16);
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

pub(crate) fn random_hex(bytes: usize) -> String {
    let mut buffer = vec![0; bytes];
    getrandom::fill(&mut buffer).expect("the operating system provides random bytes");
    hex::encode(buffer)
}

/// Returns the current time in milliseconds since 1970. Only the emulators read the clock.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_look_like_uuids_and_differ() {
        let (a, b) = (random_id(), random_id());
        assert_ne!(a, b);
        assert_eq!(a.len(), 36);
        assert_eq!(
            a.split('-').map(str::len).collect::<Vec<_>>(),
            [8, 4, 4, 4, 12]
        );
    }
}
