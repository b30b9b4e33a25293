//! The CLI of Mitt and its local stack.

mod audit;
pub mod cli;
pub mod completion_cache;
mod confirm;
pub mod demo;
pub mod doctor;
mod files;
pub mod fingerprint;
mod forward;
mod glob;
pub mod inspect;
pub mod outage_tolerance;
pub mod output;
mod poll;
mod preset_text;
pub mod raw_json;
mod run_task;
pub mod samples;
pub mod selection;
pub mod target;
pub mod test_keys;
pub mod verbs;
