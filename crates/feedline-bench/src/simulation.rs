//! A simulation from a file of settings, or from any other plain data.
//!
//! ```
//! use feedline_bench::simulation::SimulationSettings;
//!
//! let settings: SimulationSettings = toml::from_str(
//!     r#"
//!     samples = 64_000
//!     batch_size = 64
//!     workers = 256
//!     prefetch = 16
//!     step = "10ms"
//!
//!     [[stages]]
//!     name = "load"
//!     latency = { mean = "20ms", spread = 1.0 }
//!     cost = "600KB"
//!     uses = "network"
//!
//!     [[stages]]
//!     name = "decode"
//!     cost = { mean = "10ms", spread = 0.5, stragglers = { share = "1%", factor = 20 } }
//!
//!     [resources.network]
//!     capacity = "10GB/s"
//!     each = "500MB/s"
//!     "#,
//! )?;
//! let outcome = settings.simulation()?.run()?;
//! assert_eq!(outcome.samples, 64_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;

use feedline_core::simulate::{
    Assignment, Cost, Death, Resource, Simulation, SimulationError, StageCost,
};
pub use feedline_core::simulate::{Simulated, SimulatedRank};
use feedline_core::{Delivery, PolicyKind};
use feedline_model::units::quantity;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

/// What a file says, by the names of [`Simulation`]'s fields. Times and bytes may have units; what is left out is as in
/// [`Simulation::new`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulationSettings {
    samples: u64,
    batch_size: u64,
    epochs: Option<u64>,
    workers: Option<usize>,
    io_workers: Option<usize>,
    prefetch: Option<usize>,
    memory: Option<Amount>,
    sample_bytes: Option<Amount>,
    raw_bytes: Option<Amount>,
    policy: Option<PolicyKind>,
    assignment: Option<AssignmentName>,
    order: Option<OrderName>,
    /// In ready order: how many batches' worth of samples may be begun beyond the oldest that is not done.
    window: Option<usize>,
    #[serde(default)]
    stages: Vec<StageSettings>,
    collate: Option<StageSettings>,
    handover: Option<CostSettings>,
    step: Option<CostSettings>,
    ranks: Option<usize>,
    exchange: Option<Amount>,
    #[serde(default)]
    resources: BTreeMap<String, ResourceSettings>,
    #[serde(default)]
    slow_workers: Vec<SlowSettings>,
    #[serde(default)]
    deaths: Vec<DeathSettings>,
    seed: Option<u64>,
}

#[derive(Copy, Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AssignmentName {
    Samples,
    Batches,
}

#[derive(Copy, Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OrderName {
    InOrder,
    Ready,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StageSettings {
    name: String,
    latency: Option<CostSettings>,
    cost: CostSettings,
    uses: Option<String>,
}

#[derive(Copy, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceSettings {
    capacity: Amount,
    /// What one user gets at most; all of it if nothing is said.
    each: Option<Amount>,
    #[serde(default)]
    shared_by_ranks: bool,
}

#[derive(Copy, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlowSettings {
    worker: usize,
    factor: Amount,
}

#[derive(Copy, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeathSettings {
    #[serde(default)]
    rank: usize,
    worker: usize,
    at: Amount,
    replaced_after: Amount,
}

/// A number, or a text with a unit.
#[derive(Copy, Clone, Debug)]
struct Amount(f64);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Amount, D::Error> {
        from.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a text such as \"80ms\"")
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Amount, E> {
        Ok(Amount(value))
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Amount, E> {
        Ok(Amount(value as f64))
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Amount, E> {
        Ok(Amount(value as f64))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
        quantity(text).map(Amount).map_err(E::custom)
    }
}

/// An amount that is always the same, or a table.
#[derive(Clone, Debug)]
enum CostSettings {
    Same(Amount),
    Spread(CostTable),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CostTable {
    /// Of a log-normal distribution with `spread`; without it, always the same.
    mean: Option<Amount>,
    spread: Option<f64>,
    /// The mean of an exponential distribution.
    exponential: Option<Amount>,
    /// Uniform from here to `most`.
    least: Option<Amount>,
    most: Option<Amount>,
    /// Drawn from these.
    recorded: Option<Vec<Amount>>,
    /// These, one after the other.
    replayed: Option<Vec<Amount>>,
    stragglers: Option<Stragglers>,
}

#[derive(Copy, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stragglers {
    share: Amount,
    factor: Amount,
}

impl<'de> Deserialize<'de> for CostSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<CostSettings, D::Error> {
        struct CostVisitor;

        impl<'de> Visitor<'de> for CostVisitor {
            type Value = CostSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a text such as \"80ms\", or a table such as { mean = \"80ms\", spread = 0.5 }")
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<CostSettings, E> {
                AmountVisitor.visit_f64(value).map(CostSettings::Same)
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<CostSettings, E> {
                AmountVisitor.visit_i64(value).map(CostSettings::Same)
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<CostSettings, E> {
                AmountVisitor.visit_u64(value).map(CostSettings::Same)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<CostSettings, E> {
                AmountVisitor.visit_str(text).map(CostSettings::Same)
            }
            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<CostSettings, M::Error> {
                CostTable::deserialize(MapAccessDeserializer::new(map)).map(CostSettings::Spread)
            }
        }

        from.deserialize_any(CostVisitor)
    }
}

/// Settings that make no simulation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A cost that says nothing, or two things.
    #[error(
        "{what} has {got}; give it one of `mean` (with `spread` or not), `exponential`, `least` and `most`, `recorded`, `replayed`"
    )]
    Cost {
        /// Of what.
        what: String,
        /// What it says.
        got: String,
    },
    /// A stage uses what is not there.
    #[error("stage `{stage}` uses `{uses}`, and {}; add [resources.{uses}]", listed(.has))]
    Resource {
        /// The stage.
        stage: String,
        /// What it uses.
        uses: String,
        /// The resources that are there.
        has: Vec<String>,
    },
    /// A number of bytes that is none.
    #[error("{what} is {got}; pass a number of bytes from 0 to 2^63")]
    Bytes {
        /// Which.
        what: &'static str,
        /// Its value.
        got: f64,
    },
    /// A window without ready order.
    #[error("`window` belongs to order = \"ready\"; set that, or leave `window` out")]
    Window,
    /// What the simulator refuses.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

fn listed(names: &[String]) -> String {
    match names.is_empty() {
        true => "there are no resources".into(),
        false => format!("the resources are {}", names.join(", ")),
    }
}

impl SimulationSettings {
    /// The simulation that they describe.
    pub fn simulation(&self) -> Result<Simulation, SettingsError> {
        let mut it = Simulation::new(self.samples, self.batch_size);
        it.epochs = self.epochs.unwrap_or(it.epochs);
        it.workers = self.workers.unwrap_or(it.workers);
        it.io_workers = self.io_workers.unwrap_or(it.io_workers);
        it.prefetch = self.prefetch.unwrap_or(it.prefetch);
        it.memory = bytes("memory", self.memory, it.memory)?;
        it.sample_bytes = bytes("sample_bytes", self.sample_bytes, it.sample_bytes)?;
        it.raw_bytes = bytes("raw_bytes", self.raw_bytes, it.raw_bytes)?;
        it.policy = self.policy.unwrap_or(it.policy);
        it.ranks = self.ranks.unwrap_or(it.ranks);
        it.exchange = self.exchange.map_or(it.exchange, |amount| amount.0);
        it.seed = self.seed.unwrap_or(it.seed);
        if let Some(AssignmentName::Batches) = self.assignment {
            it.assignment = Assignment::Batches;
        }
        it.delivery = match (self.order, self.window) {
            (Some(OrderName::Ready), window) => Delivery::Ready { window: window.unwrap_or(4) },
            (_, Some(_)) => return Err(SettingsError::Window),
            _ => Delivery::InOrder,
        };
        for stage in &self.stages {
            it.stages.push(self.stage(stage)?);
        }
        it.collate = self.collate.as_ref().map(|stage| self.stage(stage)).transpose()?;
        if let Some(cost) = &self.handover {
            it.handover = cost.cost("handover")?;
        }
        if let Some(cost) = &self.step {
            it.step = cost.cost("step")?;
        }
        it.resources = self
            .resources
            .values()
            .map(|resource| Resource {
                capacity: resource.capacity.0,
                each: resource.each.unwrap_or(resource.capacity).0,
                shared_by_ranks: resource.shared_by_ranks,
            })
            .collect();
        it.slow_workers = self.slow_workers.iter().map(|it| (it.worker, it.factor.0)).collect();
        it.deaths = self
            .deaths
            .iter()
            .map(|death| Death {
                rank: death.rank,
                worker: death.worker,
                at: death.at.0,
                replaced_after: death.replaced_after.0,
            })
            .collect();
        Ok(it)
    }

    fn stage(&self, stage: &StageSettings) -> Result<StageCost, SettingsError> {
        let uses = match &stage.uses {
            None => None,
            Some(uses) => {
                Some(self.resources.keys().position(|name| name == uses).ok_or_else(|| {
                    SettingsError::Resource {
                        stage: stage.name.clone(),
                        uses: uses.clone(),
                        has: self.resources.keys().cloned().collect(),
                    }
                })?)
            }
        };
        let latency = stage.latency.as_ref();
        let latency = latency.map(|it| it.cost(&format!("the latency of stage `{}`", stage.name)));
        let cost = stage.cost.cost(&format!("the cost of stage `{}`", stage.name))?;
        Ok(StageCost { name: stage.name.clone(), latency: latency.transpose()?, cost, uses })
    }
}

impl CostSettings {
    fn cost(&self, what: &str) -> Result<Cost, SettingsError> {
        let table = match self {
            CostSettings::Same(amount) => return Ok(Cost::constant(amount.0)?),
            CostSettings::Spread(table) => table,
        };
        let said = [
            ("mean", table.mean.is_some()),
            ("exponential", table.exponential.is_some()),
            ("least", table.least.is_some()),
            ("recorded", table.recorded.is_some()),
            ("replayed", table.replayed.is_some()),
        ];
        let said: Vec<&str> = said.iter().filter(|it| it.1).map(|it| it.0).collect();
        let refused = || SettingsError::Cost {
            what: what.into(),
            got: if said.is_empty() { "no amount".into() } else { said.join(" and ") },
        };
        let is_paired = table.least.is_some() == table.most.is_some()
            && (table.spread.is_none() || table.mean.is_some());
        if said.len() != 1 || !is_paired {
            return Err(refused());
        }
        let values = |list: &[Amount]| list.iter().map(|amount| amount.0).collect::<Vec<f64>>();
        let cost = if let Some(mean) = table.mean {
            Cost::log_normal(mean.0, table.spread.unwrap_or(0.0))?
        } else if let Some(mean) = table.exponential {
            Cost::exponential(mean.0)?
        } else if let (Some(least), Some(most)) = (table.least, table.most) {
            Cost::uniform(least.0, most.0)?
        } else if let Some(list) = &table.recorded {
            Cost::recorded(values(list))?
        } else {
            Cost::replayed(values(table.replayed.as_deref().unwrap_or_default()))?
        };
        match table.stragglers {
            Some(Stragglers { share, factor }) => Ok(cost.with_stragglers(share.0, factor.0)?),
            None => Ok(cost),
        }
    }
}

fn bytes(what: &'static str, amount: Option<Amount>, otherwise: u64) -> Result<u64, SettingsError> {
    match amount {
        None => Ok(otherwise),
        Some(Amount(got)) if (0.0..=9.2e18).contains(&got) => Ok(got as u64),
        Some(Amount(got)) => Err(SettingsError::Bytes { what, got }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        let settings: Result<SimulationSettings, _> = toml::from_str(text);
        match settings {
            Err(error) => error.to_string(),
            Ok(settings) => settings.simulation().unwrap_err().to_string(),
        }
    }

    #[test]
    fn a_file_makes_the_simulation_that_it_describes() {
        let settings: SimulationSettings = toml::from_str(
            r#"
            samples = 100
            batch_size = 10
            workers = 3
            io_workers = 2
            order = "ready"
            policy = "longest_first"
            memory = "2GiB"
            step = { least = "5ms", most = "15ms" }
            stages = [{ name = "read", cost = 1_000, latency = "1ms", uses = "disk" }]
            deaths = [{ worker = 1, at = "2s", replaced_after = 1 }]
            [resources.cores]
            capacity = 4
            each = 1
            [resources.disk]
            capacity = "1GB/s"
            shared_by_ranks = true
            "#,
        )
        .unwrap();
        let mut expected = Simulation::new(100, 10);
        (expected.workers, expected.io_workers, expected.memory) = (3, 2, 2 << 30);
        (expected.policy, expected.delivery) =
            (PolicyKind::LongestFirst, Delivery::Ready { window: 4 });
        expected.step = Cost::uniform(0.005, 0.015).unwrap();
        expected.resources = vec![
            Resource { capacity: 4.0, each: 1.0, shared_by_ranks: false },
            Resource { capacity: 1e9, each: 1e9, shared_by_ranks: true },
        ];
        expected.stage_on("read", Cost::constant(1000.0).unwrap(), 1);
        expected.stages[0].latency = Some(Cost::constant(0.001).unwrap());
        expected.deaths = vec![Death { rank: 0, worker: 1, at: 2.0, replaced_after: 1.0 }];
        assert_eq!(settings.simulation().unwrap(), expected);
    }

    #[test]
    fn every_kind_of_cost_can_be_written() {
        for (text, cost) in [
            ("0.5", Cost::constant(0.5)),
            ("'80ms'", Cost::constant(0.08)),
            ("{ mean = '1s' }", Cost::log_normal(1.0, 0.0)),
            ("{ mean = 2, spread = 0.7 }", Cost::log_normal(2.0, 0.7)),
            ("{ exponential = 3 }", Cost::exponential(3.0)),
            ("{ recorded = [1, '2s'] }", Cost::recorded(vec![1.0, 2.0])),
            ("{ replayed = [3] }", Cost::replayed(vec![3.0])),
            (
                "{ mean = 1, stragglers = { share = '5%', factor = 9 } }",
                Cost::log_normal(1.0, 0.0).and_then(|cost| cost.with_stragglers(0.05, 9.0)),
            ),
        ] {
            let text = format!("samples = 1\nbatch_size = 1\nstep = {text}");
            let settings: SimulationSettings = toml::from_str(&text).unwrap();
            assert_eq!(settings.simulation().unwrap().step, cost.unwrap(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_says_where_and_what_to_write() {
        let with = |line: &str| message(&format!("samples = 1\nbatch_size = 1\n{line}"));
        assert!(message("batch_size = 1").contains("missing field `samples`"));
        assert!(with("workrs = 3").contains("unknown field `workrs`"));
        assert!(with("step = '80 parsecs'").contains("`80 parsecs` is no quantity"));
        assert!(with("step = {}").contains("step has no amount; give it one of"));
        assert!(with("step = { mean = 1, exponential = 1 }").contains("mean and exponential"));
        assert!(with("step = { least = 1 }").contains("step has least"));
        assert!(with("step = { mean = -1 }").contains("the mean cost is -1"));
        assert!(with("memory = -5").contains("memory is -5"));
        assert!(with("window = 3").contains("order = \"ready\""));
        let message = with("stages = [{ name = 'a', cost = 1, uses = 'disk' }]");
        assert!(message.contains("stage `a` uses `disk`, and there are no resources"), "{message}");
    }
}
