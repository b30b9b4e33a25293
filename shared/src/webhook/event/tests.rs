use super::*;

#[test]
fn strange_ids_cannot_reach_into_another_key() {
    for id in ["", "a#b", "a~b", "ä", "a b", &"x".repeat(201)] {
        let key = EventKey::new("src", id);
        assert!(key.id().starts_with("h:"), "{id}");
        assert_eq!(EventKey::from_pk(&key.pk()), Some(key));
    }
    assert_eq!(EventKey::new("src", "evt_1").pk(), "E#src#evt_1");
    assert_ne!(EventKey::new("src", "a#b"), EventKey::new("src", "a~b"));
}

#[test]
fn keys_are_read_back_or_refused() {
    for pk in ["", "E#", "E#src", "E##x", "E#src#", "E#src#a#b", "SYNC#src"] {
        assert_eq!(EventKey::from_pk(pk), None, "{pk}");
    }
}

#[test]
fn an_id_is_found_by_its_prefix() {
    let at = UnixMillis(1_795_169_681_118);
    let id = EventId::new(at, &EventKey::new("s", "1"));
    assert_eq!(EventId::times(id.as_str()), Some((at, at)));
    assert_eq!(EventId::times(&id.as_str()[..15]), Some((at, at)));
    let (from, to) = EventId::times(&id.as_str()[..10]).unwrap();
    assert!(from <= at && at <= to && from < to);
    for bad in ["", "evt_", "evt_!", "zzzzzzzzzzzzzzzzzzzzzzzzzzz", "evt_U"] {
        assert_eq!(EventId::times(bad), None, "{bad}");
    }
}
