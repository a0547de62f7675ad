package provider

import (
	"bytes"
	"encoding/json"
)

// Decode decodes Config into v, as [json.Unmarshal] does, but an unknown key is an error. When Check or Open returns that error unchanged, Cortex
// rewords it for authors of YAML.
func (ep *Endpoint) Decode(v any) error {
	d := json.NewDecoder(bytes.NewReader(ep.Config))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
