//! The CLI of Mitt and its local stack.

pub mod cli;
pub mod demo;
pub mod doctor;
pub mod fingerprint;
mod forward;
mod glob;
pub mod inspect;
pub mod outage;
pub mod output;
pub mod place;
pub mod preset_words;
pub mod recent;
mod run_task;
pub mod samples;
pub mod selection;
pub mod test_keys;
pub mod verbatim;
pub mod verbs;
mod who;
