package openai

import (
	"bytes"
	"encoding/json"
)

// alike reads frames that differ from an earlier one of the same answer in their text alone, as most do: all other bytes being the same, they mean
// the same. Decoding such a frame costs more than all else that is done with a word. The zero value knows no frame.
type alike struct {
	before, after []byte // of the earlier frame, up to its text and from the end of its text, both with the quote; nil: none
	reading              // of the earlier frame, which is one part with one choice
}

// read returns what data means, or false if it differs in anything but its text.
func (k *alike) read(data []byte) (reading, bool) {
	n, m := len(k.before), len(data)-len(k.after)
	if n == 0 || m < n || !bytes.HasPrefix(data, k.before) || !bytes.HasSuffix(data, k.after) {
		return reading{}, false
	}
	raw := data[n-1 : m+1]
	if !isText(raw) {
		return reading{}, false
	}
	f := *k.frames[0].(*frame)
	f.Choices = []choice{f.Choices[0]}
	f.Choices[0].Delta.Content = bytes.Clone(raw)
	return reading{frames: []part{&f}, ends: k.ends}, true
}

// note makes data, which means r and has this content, the frame with which later ones are compared, if the place of the content is certain.
func (k *alike) note(data []byte, content json.RawMessage, r reading) {
	at := bytes.Index(data, content) // it is in data as it is, perhaps not at its first occurrence
	if len(content) == 0 || content[0] != '"' || len(r.frames) != 1 || bytes.LastIndex(data, content) != at {
		return
	}
	k.before, k.after, k.reading = bytes.Clone(data[:at+1]), bytes.Clone(data[at+len(content)-1:]), r
}

// isText reports whether raw, between quotes, is one JSON string.
func isText(raw []byte) bool {
	for _, c := range raw[1 : len(raw)-1] {
		if c < ' ' || c == '"' || c == '\\' {
			var s string
			return json.Unmarshal(raw, &s) == nil
		}
	}
	return true
}
