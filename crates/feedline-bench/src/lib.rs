//! The one measuring tool: interleaved rounds, ratios, reports.
