package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Decode reads Config into v, which is as for [json.Unmarshal]. The error names the key that v has no place for, or that is of another type.
func (ep *Endpoint) Decode(v any) error {
	d := json.NewDecoder(bytes.NewReader(ep.Config))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: want %s, not %s", wrong.Field, wrong.Type, wrong.Value)
	}
	return errors.New(strings.TrimPrefix(strings.Replace(err.Error(), "unknown field", "unknown key", 1), "json: "))
}
