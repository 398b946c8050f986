//! The run driver.
