//! The engine: plan, schedule, work, assemble, deliver, measure, state.
