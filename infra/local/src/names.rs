//! What things are called on this machine: the made-up account, ARNs and physical names.

/// The region the stack pretends to be in.
pub const REGION: &str = "us-east-1";
/// The account the stack pretends to be in.
pub const ACCOUNT: &str = "000000000000";
/// Credentials nobody checks. ministack gives the key `test` every right.
pub const ACCESS_KEY: &str = "test";
pub const SECRET_KEY: &str = "test";
/// The name of the local stack, hence of its secrets: `/mitt/ingress`.
pub const STACK_NAME: &str = "mitt";

pub(crate) fn arn(service: &str, resource: &str) -> String {
    format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}")
}

/// A random id as AWS forms them: `8f14e45f-ceea-467f-9b1c-2d3f5a6b7c8d`.
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
    getrandom::fill(&mut buffer).expect("the operating system gives random bytes");
    hex::encode(buffer)
}

/// Milliseconds since 1970: the emulators are the edge where time comes in.
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
