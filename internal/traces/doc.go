// Package traces makes OpenTelemetry spans of what an orchestrator adds to its logs. A span is a function of the log: its times, its attributes and its
// ids. So a turn that is killed in the middle, or moves to another process, is one trace, without a hole and without a span that is there twice.
//
// The spans of a turn are emitted when the entry of its answer is appended, by the process that appends it. What that process has not seen of the turn
// it reads from the log. Only then is it known whether the turn failed or was slow: such turns are kept whole, whatever OTEL_TRACES_SAMPLER says. The
// sampler decides about the others, and about the sampled flag of tasks, which agents go by.
//
//	invoke_workflow cortex        from the message to the answer
//	├── chat MODEL                a decision
//	└── invoke_agent AGENT        an attempt at a task; its span id is the parent in the task's traceparent
//
// Names and attributes are those of the OpenTelemetry semantic conventions for generative AI, github.com/open-telemetry/semantic-conventions-genai,
// which are in development; what they have no name for begins with cortex.
package traces
