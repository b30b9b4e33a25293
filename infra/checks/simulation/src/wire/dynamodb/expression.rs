//! Condition and update expressions, limited to the syntax that the production code uses.
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.OperatorsAndFunctions.html>

use super::refusal::Refusal;
use super::words::{Word, Words};

/// A part of a path: an attribute or a map key. The part is a name or a placeholder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Name(String),
    Placeholder(String),
}

pub(super) type Path = Vec<Part>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Path(Path),
    /// The value of this placeholder.
    Value(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compare {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// A condition that was switched off.
    Always,
    Compare(Operand, Compare, Operand),
    Between(Operand, Operand, Operand),
    In(Operand, Vec<Operand>),
    Exists(Path),
    Missing(Path),
    HasType(Path, Operand),
    BeginsWith(Path, Operand),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

/// The new value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Operand(Operand),
    IfMissing(Path, Operand),
    Sum(Operand, Operand),
    Difference(Operand, Operand),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Update {
    pub set: Vec<(Path, Source)>,
    pub remove: Vec<Path>,
    pub add: Vec<(Path, String)>,
}

impl Condition {
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        let mut words = Words::of(text)?;
        let condition = any(&mut words)?;
        words.ends()?;
        Ok(condition)
    }
}

fn any(words: &mut Words) -> Result<Condition, Refusal> {
    let mut condition = all(words)?;
    while words.keyword("OR") {
        condition = Condition::Or(condition.into(), all(words)?.into());
    }
    Ok(condition)
}

fn all(words: &mut Words) -> Result<Condition, Refusal> {
    let mut condition = one(words)?;
    while words.keyword("AND") {
        condition = Condition::And(condition.into(), one(words)?.into());
    }
    Ok(condition)
}

fn one(words: &mut Words) -> Result<Condition, Refusal> {
    if words.keyword("NOT") {
        return Ok(Condition::Not(one(words)?.into()));
    }
    if words.sign("(") {
        let inner = any(words)?;
        words.expect(")")?;
        return Ok(inner);
    }
    match function(words)? {
        Some(condition) => Ok(condition),
        None => comparison(words),
    }
}

fn function(words: &mut Words) -> Result<Option<Condition>, Refusal> {
    let Some(Word::Name(name)) = words.peek().cloned() else {
        return Ok(None);
    };
    if ![
        "attribute_exists",
        "attribute_not_exists",
        "attribute_type",
        "begins_with",
    ]
    .contains(&name.as_str())
    {
        return Ok(None);
    }
    words.next();
    words.expect("(")?;
    let path = path(words)?;
    let condition = match name.as_str() {
        "attribute_exists" => Condition::Exists(path),
        "attribute_not_exists" => Condition::Missing(path),
        other => {
            words.expect(",")?;
            let argument = operand(words)?;
            if other == "attribute_type" {
                Condition::HasType(path, argument)
            } else {
                Condition::BeginsWith(path, argument)
            }
        }
    };
    words.expect(")")?;
    Ok(Some(condition))
}

fn comparison(words: &mut Words) -> Result<Condition, Refusal> {
    let left = operand(words)?;
    if words.keyword("BETWEEN") {
        let low = operand(words)?;
        if !words.keyword("AND") {
            return Err(Refusal::invalid("BETWEEN without AND"));
        }
        return Ok(Condition::Between(left, low, operand(words)?));
    }
    if words.keyword("IN") {
        words.expect("(")?;
        let mut list = vec![operand(words)?];
        while words.sign(",") {
            list.push(operand(words)?);
        }
        words.expect(")")?;
        return Ok(Condition::In(left, list));
    }
    let compare = match words.next() {
        Some(Word::Sign("=")) => Compare::Equal,
        Some(Word::Sign("<>")) => Compare::Unequal,
        Some(Word::Sign("<")) => Compare::Less,
        Some(Word::Sign("<=")) => Compare::LessOrEqual,
        Some(Word::Sign(">")) => Compare::Greater,
        Some(Word::Sign(">=")) => Compare::GreaterOrEqual,
        other => return Err(Refusal::unknown(format!("{other:?} as a comparison"))),
    };
    Ok(Condition::Compare(left, compare, operand(words)?))
}

fn operand(words: &mut Words) -> Result<Operand, Refusal> {
    if let Some(Word::Value(name)) = words.peek().cloned() {
        words.next();
        return Ok(Operand::Value(name));
    }
    path(words).map(Operand::Path)
}

fn path(words: &mut Words) -> Result<Path, Refusal> {
    let mut path = Vec::new();
    loop {
        path.push(match words.next() {
            Some(Word::Name(name)) => Part::Name(name),
            Some(Word::Placeholder(name)) => Part::Placeholder(name),
            other => return Err(Refusal::unknown(format!("{other:?} as an attribute"))),
        });
        if matches!(words.peek(), Some(Word::Sign("("))) {
            return Err(Refusal::unknown(format!("the function {path:?}")));
        }
        if !words.sign(".") {
            return Ok(path);
        }
    }
}

impl Update {
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        let mut words = Words::of(text)?;
        let mut update = Self::default();
        while words.peek().is_some() {
            if words.keyword("SET") {
                each(&mut words, |words| {
                    let path = path(words)?;
                    words.expect("=")?;
                    update.set.push((path, source(words)?));
                    Ok(())
                })?;
            } else if words.keyword("REMOVE") {
                each(&mut words, |words| {
                    update.remove.push(path(words)?);
                    Ok(())
                })?;
            } else if words.keyword("ADD") {
                each(&mut words, |words| {
                    let path = path(words)?;
                    let Some(Word::Value(value)) = words.next() else {
                        return Err(Refusal::invalid("an ADD has no value"));
                    };
                    update.add.push((path, value));
                    Ok(())
                })?;
            } else {
                return Err(Refusal::unknown(format!(
                    "{:?} in the update {text:?}",
                    words.peek()
                )));
            }
        }
        Ok(update)
    }
}

fn each(
    words: &mut Words,
    mut one: impl FnMut(&mut Words) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    loop {
        one(words)?;
        if !words.sign(",") {
            return Ok(());
        }
    }
}

fn source(words: &mut Words) -> Result<Source, Refusal> {
    if words.keyword("if_not_exists") {
        words.expect("(")?;
        let path = path(words)?;
        words.expect(",")?;
        let operand = operand(words)?;
        words.expect(")")?;
        return Ok(Source::IfMissing(path, operand));
    }
    let first = operand(words)?;
    if words.sign("+") {
        return Ok(Source::Sum(first, operand(words)?));
    }
    if words.sign("-") {
        return Ok(Source::Difference(first, operand(words)?));
    }
    Ok(Source::Operand(first))
}
