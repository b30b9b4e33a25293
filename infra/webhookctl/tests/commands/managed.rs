//! Commands for a source whose secret is in Secrets Manager. The policy for Secrets Manager has
//! every permission that they need, and no permission that no command uses.

use std::collections::BTreeSet;

use crate::policy::Policy;
use crate::world::World;

const POLICIES: [&str; 4] = ["viewer", "operator", "secret-admin", "secrets-manager"];

const SOURCES: &str = r#"
schema = 1
[[source]]
name = "vault"
preset = "github"
secret_store = "secrets-manager"
[[source.action]]
kind = "keep"
"#;

#[tokio::test]
async fn commands_ask_secrets_manager_for_what_its_policy_allows_and_it_allows_no_more() {
    let world = World::with(SOURCES).await;
    for (file, text) in [
        ("old", "the old secret"),
        ("new", "the new secret"),
        ("own.toml", SOURCES),
    ] {
        std::fs::write(world.folder.join(file), text).unwrap();
    }
    let policies = POLICIES.map(|name| Policy::read(name, &world));
    let (mut refused, mut used) = (BTreeSet::new(), BTreeSet::new());
    world.calls();
    for line in [
        "sources rotate-secret vault --secret-from file:old -m why",
        "sources show vault",
        "doctor",
        "sources rotate-secret vault --secret-from file:new -m why",
        "sources rotate-secret vault --abort -m why",
        "sources rotate-secret vault --secret-from file:new -m why",
        "sources rotate-secret vault --finish --confirm vault -m why",
        "sources remove vault --confirm vault --with-secrets --file own.toml",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = world.run(&words).await;
        let code = ran.status.code();
        let may_fail = line == "doctor" && code == Some(5);
        assert!(code == Some(0) || may_fail, "{line}: {ran:?}");
        for call in world.calls() {
            let parts: BTreeSet<String> = policies.iter().flat_map(|it| it.allows(&call)).collect();
            let is_of_it = ["secretsmanager:", "/secretsmanager/"]
                .iter()
                .any(|part| call.action.contains(part) || call.on.contains(part));
            if parts.is_empty() && is_of_it {
                refused.insert(format!("{line}: {} {}", call.action, call.on));
            }
            used.extend(parts);
        }
    }
    let all = policies[3].parts();
    let idle: Vec<&String> = all.difference(&used).collect();
    assert!(
        refused.is_empty() && idle.is_empty(),
        "not allowed: {refused:#?}\nallowed, but unused: {idle:#?}"
    );
    world.end().await;
}
