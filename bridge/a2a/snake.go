package a2a

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

// ProtoJSON is written in camelCase, and read in snake_case as well. The SDK reads only the former.

// snakeKeys are the keys of requests that have several words.
var snakeKeys = func() map[string]string {
	keys := map[string]string{}
	for _, camel := range []string{
		"messageId", "contextId", "taskId", "referenceTaskIds", "mediaType", "historyLength", "pageSize", "pageToken", "statusTimestampAfter",
		"includeArtifacts", "returnImmediately", "acceptedOutputModes", "taskPushNotificationConfig",
	} {
		var snake strings.Builder
		for _, r := range camel {
			if r >= 'A' && r <= 'Z' {
				snake.WriteByte('_')
				r += 'a' - 'A'
			}
			snake.WriteRune(r)
		}
		keys[snake.String()] = camel
	}
	return keys
}()

// camelBody returns a request with its keys in camelCase. What cannot be read is returned as it is.
func camelBody(body []byte, rest bool) []byte {
	if !bytes.ContainsRune(body, '_') {
		return body
	}
	if rest {
		return camelJSON(body)
	}
	var call map[string]json.RawMessage
	if json.Unmarshal(body, &call) != nil || call["params"] == nil {
		return body
	}
	call["params"] = camelJSON(call["params"])
	b, err := json.Marshal(call)
	if err != nil {
		return body
	}
	return b
}

func camelJSON(b []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if d.Decode(&v) != nil || d.More() || !camel(v) {
		return b
	}
	out, err := json.Marshal(v)
	if err != nil {
		return b
	}
	return out
}

// camel renames the keys within v, but not in what is the client's own, and reports whether there were any.
func camel(v any) (renamed bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, of := range v {
			if key == "metadata" || key == "data" {
				continue
			}
			renamed = camel(of) || renamed
			to, ok := snakeKeys[key]
			if !ok {
				continue
			}
			renamed = true
			delete(v, key)
			if _, both := v[to]; !both {
				v[to] = of
			}
		}
	case []any:
		for _, of := range v {
			renamed = camel(of) || renamed
		}
	}
	return renamed
}

// camelQuery renames the keys of a query.
func camelQuery(q url.Values) url.Values {
	for snake, to := range snakeKeys {
		if all, ok := q[snake]; ok {
			delete(q, snake)
			if !q.Has(to) {
				q[to] = all
			}
		}
	}
	return q
}
