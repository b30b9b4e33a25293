//! Visits every reachable state of a model breadth-first, so that no shorter counterexample exists.
//!
//! The search stores whole states, so a hash collision cannot merge two states. After the search,
//! the checker follows the sure steps backwards from the states at rest. It finds the states from
//! which the model cannot reach a state at rest. In temporal logic, the checked property is `AG EF
//! rest`.

use std::hash::{BuildHasherDefault, Hash, Hasher};

use indexmap::IndexSet;

use crate::property::Property;

/// A system, described by its states and the steps between them.
pub trait Model {
    type State: Clone + Eq + Hash;

    fn start(&self) -> Vec<Self::State>;

    /// Adds all possible next steps.
    fn steps(&self, state: &Self::State, steps: &mut Steps<Self::State>);

    /// Returns the property that this state violates, if any.
    fn broken(&self, state: &Self::State) -> Option<Property>;

    /// Returns whether no work is left in this state.
    fn at_rest(&self, state: &Self::State) -> bool;

    /// Returns the property that is violated if no state at rest can be reached.
    fn never_at_rest(&self) -> Property {
        Property::EveryEventEnds
    }
}

/// The description of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    pub who: &'static str,
    pub what: &'static str,
}

/// The steps out of a state.
#[derive(Debug)]
pub struct Steps<S> {
    list: Vec<(Label, bool, S)>,
}

impl<S> Steps<S> {
    /// Adds a step that happens eventually without outside help: for example, time passes or a
    /// worker continues.
    pub fn sure(&mut self, who: &'static str, what: &'static str, to: S) {
        self.list.push((Label { who, what }, true, to));
    }

    /// Adds a step that may happen or not, such as a fault, a redelivery or an action of an
    /// operator. No required outcome may depend on this step.
    pub fn maybe(&mut self, who: &'static str, what: &'static str, to: S) {
        self.list.push((Label { who, what }, false, to));
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub states: usize,
    pub steps: usize,
    /// The violated property, and a shortest path to the violation.
    pub broken: Option<(Property, Vec<Label>)>,
}

struct Search<'m, M: Model> {
    model: &'m M,
    /// The states in the order of discovery. The index of a state identifies it.
    states: IndexSet<M::State, BuildHasherDefault<Mix>>,
    parents: Vec<u32>,
    /// The sure steps. The steps of state `i` lead to `targets[ends[i - 1]..ends[i]]`.
    targets: Vec<u32>,
    ends: Vec<usize>,
    steps: usize,
}

/// Checks a model. Stops at the first violated property.
pub fn check<M: Model>(model: &M) -> Finding {
    let mut search = Search {
        model,
        states: IndexSet::default(),
        parents: Vec::new(),
        targets: Vec::new(),
        ends: Vec::new(),
        steps: 0,
    };
    let broken = search
        .visit_all()
        .or_else(|| Some((search.stuck()?, model.never_at_rest())));
    Finding {
        states: search.states.len(),
        steps: search.steps,
        broken: broken.map(|(state, property)| (property, search.way_to(state))),
    }
}

impl<M: Model> Search<'_, M> {
    /// Visits all states. Stops at the first state that violates a property.
    fn visit_all(&mut self) -> Option<(usize, Property)> {
        for state in self.model.start() {
            self.reach(state, u32::MAX);
        }
        let mut steps = Steps { list: Vec::new() };
        let mut next = 0;
        while let Some(state) = self.states.get_index(next) {
            if let Some(property) = self.model.broken(state) {
                return Some((next, property));
            }
            self.model.steps(state, &mut steps);
            for (_, sure, to) in steps.list.drain(..) {
                self.steps += 1;
                let to = self.reach(to, name(next));
                if sure {
                    self.targets.push(to);
                }
            }
            self.ends.push(self.targets.len());
            next += 1;
        }
        None
    }

    fn reach(&mut self, state: M::State, parent: u32) -> u32 {
        let (index, new) = self.states.insert_full(state);
        if new {
            self.parents.push(parent);
        }
        name(index)
    }

    /// Returns the first state from which sure steps do not lead to rest.
    fn stuck(&self) -> Option<usize> {
        let (sources, ends) = self.backwards();
        let mut good: Vec<bool> = self.states.iter().map(|s| self.model.at_rest(s)).collect();
        let mut open: Vec<usize> = (0..good.len()).filter(|&state| good[state]).collect();
        while let Some(state) = open.pop() {
            let begin = if state == 0 { 0 } else { ends[state - 1] };
            for &source in &sources[begin..ends[state]] {
                let source = source as usize;
                if !good[source] {
                    good[source] = true;
                    open.push(source);
                }
            }
        }
        good.iter().position(|good| !good)
    }

    /// Returns the reversed sure steps, in the same representation.
    fn backwards(&self) -> (Vec<u32>, Vec<usize>) {
        let mut ends = vec![0; self.states.len()];
        for &target in &self.targets {
            ends[target as usize] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            // This is the first index of a list. The loop below moves it to the end of the list.
            *end = sum - *end;
        }
        let mut sources = vec![0; self.targets.len()];
        let mut begin = 0;
        for (source, &end) in self.ends.iter().enumerate() {
            for &target in &self.targets[begin..end] {
                let at = &mut ends[target as usize];
                sources[*at] = name(source);
                *at += 1;
            }
            begin = end;
        }
        (sources, ends)
    }

    fn way_to(&self, mut state: usize) -> Vec<Label> {
        let mut way = Vec::new();
        let mut steps = Steps { list: Vec::new() };
        while self.parents[state] != u32::MAX {
            let parent = self.parents[state] as usize;
            self.model.steps(&self.states[parent], &mut steps);
            let here = &self.states[state];
            let step = steps.list.drain(..).find(|(_, _, to)| to == here);
            way.extend(step.map(|(label, _, _)| label));
            state = parent;
        }
        way.reverse();
        way
    }
}

fn name(index: usize) -> u32 {
    u32::try_from(index).expect("a search has fewer than 2^32 states")
}

/// A fast hash for many small numbers. The input is trusted.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u8(byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u8(number.to_le_bytes()[0]);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u8(number.to_le_bytes()[0]);
    }

    fn finish(&self) -> u64 {
        (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model that counts up to `top`. At `hole`, it can enter a state that it can leave only by a
    /// step that may not happen.
    struct Count {
        top: u8,
        hole: Option<u8>,
        forbidden: Option<u8>,
    }

    impl Model for Count {
        type State = (u8, bool);

        fn start(&self) -> Vec<Self::State> {
            vec![(0, false)]
        }

        fn steps(&self, &(n, fallen): &Self::State, steps: &mut Steps<Self::State>) {
            if fallen {
                steps.maybe("luck", "helps", (n, false));
                return;
            }
            if n < self.top {
                steps.sure("counter", "counts", (n + 1, false));
            }
            if Some(n) == self.hole {
                steps.maybe("counter", "falls", (n, true));
            }
        }

        fn broken(&self, &(n, _): &Self::State) -> Option<Property> {
            (Some(n) == self.forbidden).then_some(Property::AckedIsKept)
        }

        fn at_rest(&self, &(n, _): &Self::State) -> bool {
            n == self.top
        }
    }

    fn found(hole: Option<u8>, forbidden: Option<u8>) -> (usize, Option<(Property, usize)>) {
        let finding = check(&Count {
            top: 9,
            hole,
            forbidden,
        });
        let broken = finding.broken.map(|(property, way)| (property, way.len()));
        (finding.states, broken)
    }

    #[test]
    fn all_states_are_visited_and_the_shortest_way_is_told() {
        assert_eq!(found(None, None), (10, None));
        assert_eq!(found(None, Some(4)).1, Some((Property::AckedIsKept, 4)));
    }

    #[test]
    fn luck_is_no_way_out() {
        assert_eq!(
            found(Some(3), None),
            (11, Some((Property::EveryEventEnds, 4)))
        );
    }
}
