//! Helpers that run the built command.

// Each test binary uses only a part of this module.
#![allow(dead_code)]

use std::process::{Command, Output};

pub(crate) fn ceasefire(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ceasefire")).args(arguments).output().expect("the built command starts")
}

/// Runs the command with wrong arguments and returns its one-line error.
pub(crate) fn refused(arguments: &[&str]) -> String {
    let output = ceasefire(arguments);
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert_eq!(message.lines().count(), 1, "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    message
}
