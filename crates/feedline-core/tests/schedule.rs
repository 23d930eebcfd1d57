//! The schedule room on a virtual clock: scripted workers, scripted costs, exact and instant.
//!
//! * `clock`: the simulator that drives any policy.
//! * `conformance`: what every policy promises.
//! * `assignment`: who gets which job under round robin, block and stealing.
//! * `costs`: order by cost, and ageing.
//! * `capacity`: weights follow the workers' speed.
//! * `theory`: makespans and completion times against the bounds that theory gives.

#[path = "schedule/assignment.rs"]
mod assignment;
#[path = "schedule/capacity.rs"]
mod capacity;
#[path = "schedule/clock.rs"]
mod clock;
#[path = "schedule/conformance.rs"]
mod conformance;
#[path = "schedule/costs.rs"]
mod costs;
#[path = "schedule/theory.rs"]
mod theory;
