package cli

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/directory"
)

// recollection is a keeper for registries that only observe. It reads what the running Cortex has stored about agents: when each came, which says who
// came first. Which agents are present follows from the cards alone. It stores nothing.
type recollection struct{ directory.Keeper }

var _ registry.Keeper = recollection{}

// Load implements [registry.Keeper]. The instances have no leases: without a retained card they are gone.
func (r recollection) Load(ctx context.Context) iter.Seq2[registry.AgentNote, error] {
	return func(yield func(registry.AgentNote, error) bool) {
		for kept, err := range r.Keeper.Load(ctx) {
			if err == nil {
				kept.Data = timeless(kept.Data)
			}
			if !yield(kept, err) || err != nil {
				return
			}
		}
	}
}

// timeless removes the leases and heartbeats of the instances from an agent's note. It returns other data unchanged.
func timeless(data []byte) []byte {
	var note map[string]json.RawMessage
	var instances []map[string]json.RawMessage
	if json.Unmarshal(data, &note) != nil || json.Unmarshal(note["instances"], &instances) != nil {
		return data
	}
	for _, in := range instances {
		delete(in, "ttl")
		delete(in, "heartbeat")
	}
	var err error
	if note["instances"], err = json.Marshal(instances); err != nil {
		return data
	}
	out, err := json.Marshal(note)
	if err != nil {
		return data
	}
	return out
}

// Save implements [registry.Keeper].
func (recollection) Save(context.Context, string, []byte) error { return nil }

// Delete implements [registry.Keeper].
func (recollection) Delete(context.Context, string) error { return nil }
