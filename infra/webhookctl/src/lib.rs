//! The CLI of Mitt and its local stack.

mod audit;
pub mod cli;
mod completion_cache;
mod configuration;
mod confirm;
pub mod demo;
mod doctor;
mod faults;
mod files;
mod fingerprint;
mod forward;
mod glob;
mod inspect;
mod outage_tolerance;
pub mod output;
mod poll;
mod preset_text;
mod raw_json;
mod reads;
mod recipes;
mod run_task;
mod samples;
mod selection;
pub mod target;
mod test_keys;
mod trial;
pub mod verbs;
