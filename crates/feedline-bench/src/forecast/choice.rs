//! Which points calibrate, and which are held out.

use feedline_model::calibrate::Observation;

/// The places of the points that calibrate, all without a step (or with the shortest): where there are no workers; where there are
/// the fewest, with the smallest and the largest batches; and with the largest batches where there are as many workers as cores,
/// and where there are the most. What was measured there is not looked at.
pub(super) fn choose(observations: &[Observation], cores: u32) -> Vec<usize> {
    let shortest = observations.iter().map(|it| it.step_s).fold(f64::INFINITY, f64::min);
    let prefetch = observations.iter().map(|it| it.prefetch).min();
    let fits = |it: &Observation| it.step_s <= shortest && Some(it.prefetch) == prefetch;
    let mut counts: Vec<u32> =
        observations.iter().filter(|it| fits(it)).map(|it| it.workers).collect();
    counts.sort_unstable();
    counts.dedup();
    let with: Vec<u32> = counts.iter().copied().filter(|it| *it > 0).collect();
    let mut chosen = Vec::new();
    let mut choose = |workers: Option<&u32>, largest: bool| {
        let at = observations.iter().enumerate();
        let at = at.filter(|(_, it)| fits(it) && Some(&it.workers) == workers);
        let found = if largest {
            at.max_by_key(|(_, it)| it.batch_size)
        } else {
            at.min_by_key(|(_, it)| it.batch_size)
        };
        if let Some((place, _)) = found
            && !chosen.contains(&place)
        {
            chosen.push(place);
        }
    };
    choose(counts.first().filter(|it| **it == 0), true);
    choose(with.first(), false);
    choose(with.first(), true);
    choose(with.iter().min_by_key(|it| it.abs_diff(cores)), true);
    choose(with.last(), true);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(workers: u32, batch_size: u32, step_s: f64) -> Observation {
        Observation { workers, batch_size, step_s, prefetch: 2, ..Observation::default() }
    }

    #[test]
    fn few_points_calibrate_and_the_most_are_held_out() {
        let workers: Vec<Observation> = (0..=8).map(|it| at(it, 64, 0.0)).collect();
        assert_eq!(choose(&workers, 2), [0, 1, 2, 8]);
        let mut grid = Vec::new();
        for step in [0.0, 2.0] {
            for batch in [32, 128, 1024] {
                grid.extend([1, 2, 4, 8, 32].map(|it| at(it, batch, step)));
            }
        }
        let chosen = choose(&grid, 4);
        assert_eq!(
            chosen.iter().map(|it| grid[*it]).collect::<Vec<_>>(),
            [at(1, 32, 0.0), at(1, 1024, 0.0), at(4, 1024, 0.0), at(32, 1024, 0.0)]
        );
    }

    #[test]
    fn what_there_is_is_taken() {
        assert_eq!(choose(&[at(4, 8, 1.0)], 2), [0]);
        assert_eq!(choose(&[at(0, 8, 1.0)], 2), [0]);
        assert_eq!(choose(&[at(2, 8, 0.0), at(3, 8, 0.0)], 2), [0, 1]);
        assert!(choose(&[], 2).is_empty());
    }
}
