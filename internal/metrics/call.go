package metrics

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// calls are the metrics of calls of models.
type calls struct {
	endpoints *values

	duration, first              *prometheus.HistogramVec
	requests, retries, fallbacks *prometheus.CounterVec
	prompt                       prometheus.Histogram
}

func newCalls() *calls {
	seconds := []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	of := []string{"provider", "model"}
	return &calls{
		endpoints: newValues(MaxModels),
		duration: prometheus.NewHistogramVec(native("cortex_llm_request_duration_seconds",
			"Time of a request to a model, until the end of its answer. The outcome is ok, error or canceled.", seconds), append(of, "outcome")),
		first: prometheus.NewHistogramVec(native("cortex_llm_time_to_first_chunk_seconds",
			"Time of a request to a model until the first piece of its answer.", seconds), of),
		requests: counter("cortex_llm_requests_total",
			"Requests to models, each attempt, by how they ended: ok, canceled, or the kind of the error.", append(of, "kind")...),
		retries: counter("cortex_llm_retries_total", "Requests to models that were made again, by the kind of the error before.", append(of, "kind")...),
		fallbacks: counter("cortex_llm_fallbacks_total",
			"Requests for which the next model was asked, by the model that failed and the kind of its error.", append(of, "kind")...),
		prompt: prometheus.NewHistogram(native("cortex_prompt_bytes", "Text of a request to a model.", prometheus.ExponentialBuckets(1<<10, 2, 11))),
	}
}

func (c *calls) all() []prometheus.Collector {
	return []prometheus.Collector{c.duration, c.first, c.requests, c.retries, c.fallbacks, c.prompt}
}

var _ middleware.Meter = (*Metrics)(nil)

// Called implements middleware.Meter.
func (m *Metrics) Called(call middleware.Call) {
	c := m.calls
	provider, model := c.of(call.Endpoint)
	kind := kindOf(call.Err)
	outcome := kind
	if kind != ok && kind != canceled {
		outcome = "error"
	}
	c.duration.WithLabelValues(provider, model, outcome).Observe(call.Took.Seconds())
	if call.First > 0 {
		c.first.WithLabelValues(provider, model).Observe(call.First.Seconds())
	}
	c.requests.WithLabelValues(provider, model, kind).Inc()
	c.prompt.Observe(float64(call.Prompt))
}

// Retried implements middleware.Meter.
func (m *Metrics) Retried(endpoint middleware.Endpoint, err error) {
	provider, model := m.calls.of(endpoint)
	m.calls.retries.WithLabelValues(provider, model, kindOf(err)).Inc()
}

// FellBack implements middleware.Meter.
func (m *Metrics) FellBack(endpoint middleware.Endpoint, err error) {
	provider, model := m.calls.of(endpoint)
	m.calls.fallbacks.WithLabelValues(provider, model, kindOf(err)).Inc()
}

// of returns the label values of an endpoint.
func (c *calls) of(e middleware.Endpoint) (provider, model string) {
	if c.endpoints.of(e.Provider+" "+e.Model) == other {
		return other, other
	}
	return clean(e.Provider), clean(e.Model)
}

const ok = "ok"

// kinds are the label values of errors of models, the first that applies.
var kinds = []struct {
	err  error
	name string
}{
	{llm.ErrRateLimited, "rate_limited"},
	{llm.ErrQuota, "quota"},
	{llm.ErrAuth, "auth"},
	{llm.ErrNoModel, "no_model"},
	{llm.ErrBadRequest, "bad_request"},
	{llm.ErrTooLong, "too_long"},
	{llm.ErrLength, "length"},
	{llm.ErrRefused, "refused"},
	{llm.ErrEmpty, "empty"},
	{llm.ErrTruncated, "truncated"},
	{llm.ErrUnavailable, "unavailable"},
	{context.DeadlineExceeded, "timeout"},
}

// kindOf returns the label value of how a request ended.
func kindOf(err error) string {
	switch {
	case err == nil:
		return ok
	case errors.Is(err, context.Canceled):
		return canceled
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return other
}
