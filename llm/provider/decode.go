package provider

import (
	"bytes"
	"encoding/json"
)

// Decode reads Config into v, as [json.Unmarshal] does. A key that v has no place for is an error, which Cortex puts into the words of
// somebody who wrote YAML when Check or Open returns it as it is.
func (ep *Endpoint) Decode(v any) error {
	d := json.NewDecoder(bytes.NewReader(ep.Config))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
