//! Splits a document that contains an array into documents with one element each.

use std::ops::Range;

use serde_json::value::RawValue;

use super::{JsonPath, NotThere, Step};

/// A value that a path with `[*]` matches, and its document without the other elements.
#[derive(Clone, Debug)]
pub(crate) struct Alone<'j> {
    /// The value at the path. If the rest of the path matches nothing, this is the element itself.
    pub(crate) value: &'j RawValue,
    /// The remaining ranges of the document, in order.
    left: Vec<Range<usize>>,
}

impl Alone<'_> {
    /// The length of the remaining document.
    pub(crate) fn len(&self) -> usize {
        self.left.iter().map(ExactSizeIterator::len).sum()
    }

    /// The remaining document. `json` is the original document.
    pub(crate) fn document(&self, json: &[u8]) -> Vec<u8> {
        let stretches = self.left.iter();
        let stretches = stretches.filter_map(|range| json.get(range.clone()));
        stretches.collect::<Vec<_>>().concat()
    }
}

impl JsonPath {
    /// All elements on the path, each with its own document. `None` if there are more than `most`
    /// elements.
    pub(crate) fn each_alone<'j>(
        &self,
        json: &'j [u8],
        most: usize,
    ) -> Result<Option<Vec<Alone<'j>>>, NotThere> {
        let document = serde_json::from_slice(json).map_err(|_| NotThere::NoJson)?;
        let mut taken = Taken {
            json,
            most,
            found: Vec::new(),
        };
        let around = Around {
            before: &[],
            here: 0..json.len(),
            after: &[],
        };
        let all = taken.walk(&self.0, document, &around)?;
        Ok(all.then_some(taken.found))
    }
}

struct Taken<'j> {
    json: &'j [u8],
    most: usize,
    found: Vec<Alone<'j>>,
}

/// The part of the document that can contain an array, and the remaining ranges around this part.
struct Around<'a> {
    before: &'a [Range<usize>],
    here: Range<usize>,
    after: &'a [Range<usize>],
}

impl<'j> Taken<'j> {
    /// Returns false if there are too many elements.
    fn walk(
        &mut self,
        steps: &[Step],
        value: &'j RawValue,
        around: &Around<'_>,
    ) -> Result<bool, NotThere> {
        let Some(at) = steps.iter().position(|step| *step == Step::Each) else {
            let inner = inside(value, steps)?;
            let left = around.before.iter().cloned();
            let left = left.chain([around.here.clone()]);
            self.found.push(Alone {
                value: inner.unwrap_or(value),
                left: left.chain(around.after.iter().cloned()).collect(),
            });
            return Ok(self.found.len() <= self.most);
        };
        let (keys, rest) = steps.split_at(at);
        let array = inside(value, keys)?.filter(|array| array.get().starts_with('['));
        let (Some(array), [_, rest @ ..]) = (array, rest) else {
            return Ok(true);
        };
        let elements: Vec<&'j RawValue> =
            serde_json::from_str(array.get()).map_err(|_| NotThere::NoJson)?;
        if elements.len() > self.most {
            return Ok(false);
        }
        let brackets = self.span(array);
        let mut before = around.before.to_vec();
        before.push(around.here.start..brackets.start + 1);
        let mut after = around.after.to_vec();
        after.insert(0, brackets.end - 1..around.here.end);
        for element in elements {
            let around = Around {
                before: &before,
                here: self.span(element),
                after: &after,
            };
            if !self.walk(rest, element, &around)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The range of a value in its document.
    fn span(&self, raw: &RawValue) -> Range<usize> {
        span(self.json, raw)
    }
}

fn inside<'j>(value: &'j RawValue, keys: &[Step]) -> Result<Option<&'j RawValue>, NotThere> {
    if keys.is_empty() {
        return Ok(Some(value));
    }
    JsonPath(keys.to_vec()).raw(value.get().as_bytes())
}

/// The range of a value in its document.
pub(crate) fn span(json: &[u8], raw: &RawValue) -> Range<usize> {
    let start = raw
        .get()
        .as_ptr()
        .addr()
        .saturating_sub(json.as_ptr().addr());
    start..start + raw.get().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(path: &str, json: &str) -> Vec<(String, String)> {
        let path = JsonPath::parse(path).unwrap();
        let found = path.each_alone(json.as_bytes(), 9).unwrap().unwrap();
        let each = found.iter().map(|alone| {
            let document = alone.document(json.as_bytes());
            assert_eq!(document.len(), alone.len());
            (
                alone.value.get().to_owned(),
                String::from_utf8(document).unwrap(),
            )
        });
        each.collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = expected.iter().map(|(a, b)| ((*a).into(), (*b).into()));
        owned.collect()
    }

    #[test]
    fn the_document_stays_as_it_is_around_an_element() {
        assert_eq!(
            alone("[*]", " [1 , 2]\n"),
            pairs(&[("1", " [1]\n"), ("2", " [2]\n")])
        );
        assert_eq!(
            alone(
                "v[*].i",
                r#"{"a": 1,"v":[ {"i":5,"j":0}, {"j":7} ],"b":"é"}"#
            ),
            pairs(&[
                ("5", r#"{"a": 1,"v":[{"i":5,"j":0}],"b":"é"}"#),
                (r#"{"j":7}"#, r#"{"a": 1,"v":[{"j":7}],"b":"é"}"#),
            ])
        );
        assert_eq!(
            alone(
                "e[*].c[*]",
                r#"{"e":[{"id":1,"c":[1,2]},{"id":2,"c":[]},{"id":3,"c":[3]}]}"#
            ),
            pairs(&[
                ("1", r#"{"e":[{"id":1,"c":[1]}]}"#),
                ("2", r#"{"e":[{"id":1,"c":[2]}]}"#),
                ("3", r#"{"e":[{"id":3,"c":[3]}]}"#),
            ])
        );
        for none in [
            "{}",
            "[]",
            r#"{"v":3}"#,
            r#"{"v":{"0":1}}"#,
            r#"{"v":[1],"v":[]}"#,
        ] {
            assert_eq!(alone("v[*]", none), [], "{none}");
        }
    }

    #[test]
    fn too_many_are_none_and_no_json_is_an_error() {
        let path = JsonPath::parse("[*]").unwrap();
        assert!(path.each_alone(b"[1,2,3]", 2).unwrap().is_none());
        assert_eq!(path.each_alone(b"[1,2,3]", 3).unwrap().unwrap().len(), 3);
        let nested = JsonPath::parse("[*][*]").unwrap();
        assert!(nested.each_alone(b"[[1,2],[3,4]]", 3).unwrap().is_none());
        assert!(path.each_alone(b"[1,2", 2).is_err());
    }
}
