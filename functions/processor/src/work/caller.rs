//! The caller of a request, and the roles that a queue allows.

use sha2::{Digest as _, Sha256};

/// The identity that API Gateway has verified.
///
/// A request with the credentials of a role has the ARN of a session:
/// `arn:aws:sts::ACCOUNT:assumed-role/NAME/SESSION`. It does not have the path of the role. The name of a
/// role is unique in its account whatever its path is, so two roles are equal if their partition,
/// account and name are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller(String);

impl Caller {
    /// Reads the ARN of a caller. `None` for an identity that is neither a role nor a user, such as
    /// the root user of an account.
    pub(super) fn of(user_arn: &str) -> Option<Self> {
        comparable(user_arn).map(Self)
    }

    /// Returns whether this is the role or the user of a configured ARN.
    pub(super) fn is(&self, configured: &str) -> bool {
        comparable(configured).is_some_and(|arn| arn == self.0)
    }

    /// Returns the part of an owner's name that stands for this caller.
    pub(super) fn digest(&self) -> String {
        let mut digest = hex::encode(Sha256::digest(&self.0));
        digest.truncate(12);
        digest
    }

    /// Returns the ARN, without a session and without a path.
    pub(super) fn arn(&self) -> &str {
        &self.0
    }
}

/// Returns an ARN in the form in which it is compared.
fn comparable(arn: &str) -> Option<String> {
    let mut parts = arn.splitn(6, ':');
    let mut next = || parts.next();
    let (Some("arn"), Some(partition), Some(service), Some(""), Some(account), Some(resource)) =
        (next(), next(), next(), next(), next(), next())
    else {
        return None;
    };
    let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    if partition.is_empty() || !is_account {
        return None;
    }
    let (kind, rest) = resource.split_once('/')?;
    let name = match (service, kind) {
        ("sts", "assumed-role") => {
            let (name, session) = rest.split_once('/')?;
            (!session.is_empty()).then_some(name)?
        }
        ("iam", "role") => rest.rsplit('/').next()?,
        ("iam", "user") if !rest.is_empty() => return Some(arn.to_owned()),
        _ => return None,
    };
    (!name.is_empty()).then(|| format!("arn:{partition}:iam::{account}:role/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLE: &str = "arn:aws:iam::111122223333:role/triage-agent";

    #[test]
    fn a_session_is_its_role_with_any_path() {
        let caller = Caller::of("arn:aws:sts::111122223333:assumed-role/triage-agent/i-0abc");
        let caller = caller.unwrap();
        assert_eq!(caller.arn(), ROLE);
        assert!(caller.is(ROLE));
        assert!(caller.is("arn:aws:iam::111122223333:role/team/bots/triage-agent"));
        for other in [
            "arn:aws:iam::111122223333:role/triage-agent-2",
            "arn:aws:iam::111122223333:role/triage-agent/other",
            "arn:aws:iam::444455556666:role/triage-agent",
            "arn:aws-cn:iam::111122223333:role/triage-agent",
            "arn:aws:iam::111122223333:user/triage-agent",
            "*",
            "",
        ] {
            assert!(!caller.is(other), "{other}");
        }
    }

    #[test]
    fn a_user_is_itself_and_other_identities_are_refused() {
        let user = "arn:aws:iam::111122223333:user/team/ci";
        assert!(Caller::of(user).unwrap().is(user));
        for arn in [
            "arn:aws:iam::111122223333:root",
            "arn:aws:sts::111122223333:federated-user/anna",
            "arn:aws:sts::111122223333:assumed-role/triage-agent",
            "arn:aws:sts::111122223333:assumed-role/triage-agent/",
            "arn:aws:sts::111122223333:assumed-role//session",
            "arn:aws:sts::1111:assumed-role/triage-agent/session",
            "arn:aws:iam::111122223333:role/",
            "arn:aws:iam::111122223333:user/",
            "arn:aws:iam:eu-west-1:111122223333:role/triage-agent",
            "triage-agent",
            "",
        ] {
            assert_eq!(Caller::of(arn), None, "{arn}");
        }
    }

    #[test]
    fn the_digest_is_that_of_the_role_in_every_session() {
        let session = |name: &str| {
            let arn = format!("arn:aws:sts::111122223333:assumed-role/triage-agent/{name}");
            Caller::of(&arn).unwrap().digest()
        };
        assert_eq!(session("a"), session("b"));
        assert_eq!(session("a"), hex::encode(&Sha256::digest(ROLE)[..6]));
    }
}
