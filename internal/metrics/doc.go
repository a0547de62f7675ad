// Package metrics counts what an orchestrator adds to its logs, as Prometheus metrics. Names and label values are bounded, whatever agents and models
// call themselves: of agents the first MaxAgents that get tasks have a label value of their own, of models the first MaxModels; the others share "other".
//
// Everything that follows from an entry of a log is counted when the process appends it, so that an event that is delivered again counts once.
package metrics
