//! Decides when an object is due, and in which order objects are fetched.

use std::collections::HashMap;
use std::time::Duration;

use shared::base::clock::UnixMillis;
use shared::inbox::fetch_back::Wait;

/// The wait before a failed fetch of an object is repeated. It doubles after each failure, up to
/// [`LONGEST`].
const AGAIN: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3600);

/// Returns whether an object is due. An object that another run is fetching waits as long as an
/// object whose fetch failed.
pub(super) fn is_due(wait: &Wait, now: UnixMillis) -> bool {
    let Some(tried_at) = wait.tried_at else {
        return true;
    };
    let doubled = 2_u32.saturating_pow(wait.tries.saturating_sub(1).min(10));
    now.since(tried_at) >= AGAIN.saturating_mul(doubled).min(LONGEST)
}

/// Orders the objects. The objects with the fewest tries come first. Among these, the networks
/// alternate, and each network begins with its oldest object. All known objects count as one
/// network.
pub(super) fn in_turn(mut waits: Vec<Wait>) -> Vec<Wait> {
    waits.sort_by_key(|wait| (wait.tries, wait.at));
    let mut places: HashMap<_, u32> = HashMap::new();
    let mut placed: Vec<(u32, u32, Wait)> = Vec::with_capacity(waits.len());
    for wait in waits {
        let lane = (!wait.known).then_some(wait.network);
        let place = places.entry((wait.tries, lane)).or_default();
        placed.push((wait.tries, *place, wait));
        *place += 1;
    }
    placed.sort_by_key(|(tries, place, wait)| (*tries, *place, wait.at));
    placed.into_iter().map(|(_, _, wait)| wait).collect()
}

#[cfg(test)]
mod tests {
    use shared::inbox::fetch_back::Network;

    use super::*;

    const NOW: UnixMillis = UnixMillis(1_795_169_681_000);

    fn wait(object: &str, network: &str, tries: u32, at: u64) -> Wait {
        let at = NOW + Duration::from_secs(at);
        let mut wait = Wait::new(object, false, Network::of(network), at);
        wait.tries = tries;
        wait.tried_at = (tries > 0).then_some(NOW);
        wait
    }

    #[test]
    fn a_flood_of_names_delays_a_genuine_one_by_one_call() {
        let mut waits: Vec<Wait> = (0..50)
            .map(|n| wait(&format!("tr_junk{n:02}"), "198.51.100.7", 0, n))
            .collect();
        waits.push(wait("tr_failed", "203.0.113.9", 1, 0));
        waits.push(wait("tr_genuine", "203.0.113.9", 0, 100));
        let order: Vec<String> = in_turn(waits).into_iter().map(|wait| wait.object).collect();
        assert_eq!(order[..3], ["tr_junk00", "tr_genuine", "tr_junk01"]);
        assert_eq!(order.last().map(String::as_str), Some("tr_failed"));
    }

    #[test]
    fn an_object_that_failed_waits_longer_each_time() {
        let due_after = |tries: u32| {
            let wait = wait("tr_1", "203.0.113.9", tries, 0);
            let due = |secs: &u64| is_due(&wait, NOW + Duration::from_secs(*secs));
            (0..=3600).find(due)
        };
        assert_eq!(due_after(0), Some(0));
        assert_eq!(due_after(1), Some(60));
        assert_eq!(due_after(3), Some(240));
        assert_eq!(due_after(90), Some(3600));
    }
}
