//! The catcher puts the row, sends a message, and answers the provider.

use super::rules::{Inbox, Rule};
use super::world::{Catcher, Row, World};
use crate::checker::Steps;
use crate::property::Property;

const NAMES: [&str; 2] = ["catcher 1", "catcher 2"];

pub(super) fn steps(model: &Inbox, world: &World, steps: &mut Steps<World>) {
    for n in 0..model.catchers {
        let me = At {
            model,
            world: *world,
            n,
        };
        me.steps(steps);
    }
}

/// One catcher in a state of the model.
struct At<'m> {
    model: &'m Inbox,
    world: World,
    n: usize,
}

impl At<'_> {
    fn steps(&self, steps: &mut Steps<World>) {
        match self.world.catchers[self.n] {
            Catcher::Free => return self.hear(steps),
            Catcher::Putting => self.put(steps),
            Catcher::PuttingAgain => self.put_again(steps),
            Catcher::Ringing => self.ring(Catcher::Answering, steps),
            Catcher::RingingFirst => self.ring(Catcher::Putting, steps),
            Catcher::Answering => self.answer(Catcher::Free, steps),
            Catcher::AckingFirst => self.answer(Catcher::Putting, steps),
        }
        steps.maybe(NAMES[self.n], "crashes", self.go(Catcher::Free));
    }

    fn go(&self, to: Catcher) -> World {
        self.world.with(|w| w.catchers[self.n] = to)
    }

    fn hear(&self, steps: &mut Steps<World>) {
        // Free catchers are equivalent, so only the first one starts.
        let first = self.world.catchers[..self.n]
            .iter()
            .all(|other| *other != Catcher::Free);
        if self.world.deliveries == 0 || !first {
            return;
        }
        let begin = if !self.model.has(Rule::PutBeforeAck) {
            Catcher::AckingFirst
        } else if !self.model.has(Rule::PutBeforeRing) {
            Catcher::RingingFirst
        } else {
            Catcher::Putting
        };
        let to = self.go(begin).with(|w| w.deliveries -= 1);
        steps.maybe("provider", "delivers the event", to);
    }

    fn put(&self, steps: &mut Steps<World>) {
        let me = NAMES[self.n];
        steps.maybe(
            me,
            "fails to put the row and answers 503",
            self.go(Catcher::Free),
        );
        let Some(row) = self.world.row else {
            let put = |to| {
                self.go(to).with(|w| {
                    w.row = Some(Row::NEW);
                    w.passed &= !self.model.has(Rule::MarkStaysBehind);
                })
            };
            steps.sure(me, "puts the row", put(self.kept(true)));
            steps.maybe(
                me,
                "puts the row; the answer is lost",
                put(Catcher::PuttingAgain),
            );
            steps.maybe(
                me,
                "puts the row; all answers are lost; answers 503",
                put(Catcher::Free),
            );
            return;
        };
        let ring = !row.is_settled();
        if ring {
            steps.sure(me, "finds the row open", self.go(self.kept(true)));
        }
        steps.sure(me, "finds the row", self.go(self.kept(false)));
    }

    /// Adds the steps of the second attempt of a put that was applied.
    fn put_again(&self, steps: &mut Steps<World>) {
        let me = NAMES[self.n];
        if self.model.has(Rule::OwnPut) {
            steps.sure(me, "recognizes its own row", self.go(self.kept(true)));
        } else {
            let to = self.go(self.kept(false));
            let to = to.with(|w| w.is_wrong(Property::WriterRings));
            steps.sure(me, "mistakes its own row for a duplicate", to);
        }
        steps.maybe(me, "gets no answer and answers 503", self.go(Catcher::Free));
    }

    /// Returns the next phase of a catcher whose event is durable.
    fn kept(&self, ring: bool) -> Catcher {
        if !self.model.has(Rule::PutBeforeAck) {
            if ring {
                Catcher::Ringing
            } else {
                Catcher::Free
            }
        } else if ring && self.model.has(Rule::PutBeforeRing) {
            Catcher::Ringing
        } else {
            Catcher::Answering
        }
    }

    fn ring(&self, then: Catcher, steps: &mut Steps<World>) {
        let rung = self.go(then).with(|w| super::ring(self.model, w));
        steps.sure(NAMES[self.n], "sends a message", rung);
        steps.maybe(
            NAMES[self.n],
            "sends a message, and the message is lost",
            self.go(then),
        );
    }

    fn answer(&self, then: Catcher, steps: &mut Steps<World>) {
        let acked = self.go(then).with(|w| w.acked = true);
        steps.sure(NAMES[self.n], "answers 2xx", acked);
        steps.maybe(
            NAMES[self.n],
            "answers, and the answer is lost",
            self.go(then),
        );
    }
}
