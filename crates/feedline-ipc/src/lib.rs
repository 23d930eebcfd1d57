//! Process workers: shared memory arenas, rings, supervision.
