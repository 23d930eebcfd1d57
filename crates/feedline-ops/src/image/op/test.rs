//! Operations made of operations, and what each refuses.

use std::sync::Arc;

use super::*;
use crate::image::draw::tests::Splitmix;

fn shared(operation: impl Operation + 'static) -> Arc<dyn Operation> {
    Arc::new(operation)
}

fn flip() -> Arc<dyn Operation> {
    shared(RandomHorizontalFlip::new(1.0).unwrap())
}

fn crop(side: usize) -> Arc<dyn Operation> {
    shared(CenterCrop::new(Size::new(side, side)).unwrap())
}

fn gray(channels: usize) -> Arc<dyn Operation> {
    shared(Grayscale::new(channels).unwrap())
}

fn drawn(operation: &dyn Operation, seed: u64) -> Vec<Action> {
    let mut actions = Vec::new();
    operation.draw(Size::new(40, 40), &mut Splitmix(seed), &mut actions).unwrap();
    actions
}

#[test]
fn random_apply_does_all_or_nothing() {
    let some = RandomApply::new(vec![flip(), crop(20)], 0.3).unwrap();
    let counts: Vec<usize> = (0..2000).map(|seed| drawn(&some, seed).len()).collect();
    assert!(counts.iter().all(|count| *count == 0 || *count == 2));
    let part = counts.iter().filter(|count| **count == 2).count() as f64 / 2000.0;
    assert!((part - 0.3).abs() < 0.05, "{part}");
    assert!(RandomApply::new(vec![], 0.5).is_err() && RandomApply::new(vec![flip()], 1.5).is_err());
}

#[test]
fn random_choice_chooses_by_its_weights_and_never_what_has_none() {
    let chains = vec![vec![flip()], vec![], vec![flip(), crop(20)]];
    let choice = RandomChoice::new(chains.clone(), Some(vec![1.0, 0.0, 3.0])).unwrap();
    let mut counts = [0; 3];
    for seed in 0..4000 {
        counts[drawn(&choice, seed).len()] += 1;
    }
    assert_eq!(counts[0], 0);
    assert!((f64::from(counts[1]) / 4000.0 - 0.25).abs() < 0.03, "{counts:?}");
    for p in [vec![1.0], vec![0.0; 3], vec![-1.0, 1.0, 1.0], vec![f64::NAN, 1.0, 1.0]] {
        assert!(RandomChoice::new(chains.clone(), Some(p)).is_err());
    }
    assert!(RandomChoice::new(vec![], None).is_err());
}

#[test]
fn random_order_does_everything_in_every_order() {
    let invert = || shared(RandomTone::invert(1.0).unwrap());
    let order = RandomOrder::new(vec![vec![flip()], vec![invert()], vec![crop(20)]]).unwrap();
    let mut orders = std::collections::HashSet::new();
    for seed in 0..200 {
        let actions = drawn(&order, seed);
        assert_eq!(actions.len(), 3);
        orders.insert(format!("{actions:?}"));
    }
    assert_eq!(orders.len(), 6);
}

#[test]
fn sizes_are_known_where_chance_does_not_change_them() {
    let known = Some(Size::new(20, 20));
    let cropped = RandomApply::new(vec![crop(20)], 0.5).unwrap();
    assert_eq!(cropped.extent(known), Ok(known));
    assert_eq!(cropped.extent(Some(Size::new(30, 30))), Ok(None));
    assert_eq!(cropped.extent(None), Ok(None));
    let either = RandomChoice::new(vec![vec![crop(20)], vec![flip(), crop(20)]], None).unwrap();
    assert_eq!(either.extent(None), Ok(known));
    let neither = RandomChoice::new(vec![vec![crop(20)], vec![crop(21)]], None).unwrap();
    assert_eq!(neither.extent(None), Ok(None));
    let order = RandomOrder::new(vec![vec![crop(20)], vec![flip()]]).unwrap();
    assert_eq!(order.extent(known), Ok(known));
    assert_eq!(order.extent(None), Ok(None));
}

#[test]
fn channels_are_no_matter_of_chance() {
    let some = RandomApply::new(vec![gray(1)], 0.5).unwrap();
    assert!(matches!(some.channels(3), Err(OperationError::Channels { before: 3, after: 1, .. })));
    assert_eq!(some.channels(1), Ok(1));
    assert_eq!(RandomApply::new(vec![gray(3)], 0.5).unwrap().channels(3), Ok(3));
    let choice = RandomChoice::new(vec![vec![gray(1)], vec![]], None).unwrap();
    assert!(choice.channels(3).is_err());
}

#[test]
fn five_crops_are_the_corners_and_the_middle() {
    let places = Place::FIVE.map(|place| {
        match &drawn(&CornerCrop::new(Size::new(10, 20), place).unwrap(), 0)[..] {
            [Action::Crop(area)] => (area.top, area.left),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(places, [(0, 0), (0, 20), (30, 0), (30, 20), (15, 10)]);
    let large = CornerCrop::new(Size::new(41, 10), Place::Center).unwrap();
    assert!(large.draw(Size::new(40, 40), &mut Splitmix(0), &mut Vec::new()).is_err());
}

#[test]
fn arguments_out_of_range_are_refused() {
    assert!(RandomTone::posterize(9, 0.5).is_err());
    assert!(RandomTone::solarize(256.0, 0.5).is_err());
    assert!(RandomTone::solarize(f64::NAN, 0.5).is_err());
    assert!(RandomTone::adjust_sharpness(-0.1, 0.5).is_err());
    assert!(RandomTone::invert(-0.1).is_err());
    assert!(RandomPerspective::new(1.1, 0.5, true, None).is_err());
    assert!(Elastic::new((1.0, 1.0), (101.0, 1.0), true, None).is_err());
    assert!(Elastic::new((f64::INFINITY, 1.0), (1.0, 1.0), true, None).is_err());
    assert!(Elastic::new((1.0, 1.0), (0.0, 1.0), true, None).is_err());
    assert!(TrivialAugmentWide::new(1, false, None).is_err());
    assert!(AugMix::new(0, 3, None, 1.0, true, true, None).is_err());
    assert!(AugMix::new(3, 0, None, 1.0, true, true, None).is_err());
    assert!(AugMix::new(3, 3, Some(101), 1.0, true, true, None).is_err());
    assert!(AugMix::new(3, 3, None, 0.0, true, true, None).is_err());
    let huge = Elastic::new((1.0, 1.0), (1.0, 1.0), true, None).unwrap();
    let size = Size::new(1 << 14, 1 << 14);
    let refused = huge.draw(size, &mut Splitmix(0), &mut Vec::new());
    assert!(matches!(refused, Err(OperationError::TooLarge { .. })));
}

#[test]
fn the_weights_of_a_mix_add_up_to_one() {
    let mix = AugMix::new(3, 3, None, 1.0, true, true, None).unwrap();
    assert!(mix.blends());
    for seed in 0..100 {
        let [Action::Mix(mix)] = &drawn(&mix, seed)[..] else { panic!("not one mix") };
        let sum = mix.original + mix.chains.iter().map(|(weight, _)| weight).sum::<f32>();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
        assert_eq!(mix.chains.len(), 3);
    }
}
