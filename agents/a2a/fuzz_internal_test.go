package a2a

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// FuzzCard reads cards. What is announced of any that can be read fits, and is bounded.
func FuzzCard(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","supportedInterfaces":[{"url":"http://h/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{"streaming":true,"extensions":[{"uri":"u"}]},"skills":[{"id":"s","name":"S","tags":["t"]}]}`,
		`{"name":"a","protocolVersion":"0.3.0","url":"http://h","preferredTransport":"GRPC","additionalInterfaces":[{"url":"u","transport":"JSONRPC"}],"skills":[{"name":"x y"}]}`,
		`{"name":"a","supported_interfaces":[null,{}],"provider":{"url":1},"capabilities":[],"skills":[null]}`,
		`{"name":"a","skills":[{"id":"","name":""},{"id":"\u0000","examples":[1]}]}`, `[]`, `null`, `{`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		card, err := readCard(b)
		if err != nil {
			return
		}
		id, err := transport.AgentID(card.Name)
		if err != nil || transport.IsReserved(id) {
			return
		}
		if err := transport.ValidateCard(announced(id, "http://h", card, nil)); err != nil {
			t.Error(err)
		}
	})
}

// FuzzEntries reads lists of agents.
func FuzzEntries(f *testing.F) {
	for _, seed := range []string{"https://a\n# x\n- http://b # c", `["https://a",{"url":"x"},null]`, "[", "\xef\xbb\xbfhttps://a", "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := entries(b)
		if err == nil && len(all) > maxEntries {
			t.Errorf("%d entries", len(all))
		}
		for _, e := range all {
			if (e.Err == nil) && (&Peer{URL: e.URL}).Check() != nil {
				t.Errorf("%q is used", e.URL)
			}
		}
	})
}
