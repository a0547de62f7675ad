package puback

import (
	"encoding/json"
	"testing"
)

// What plain accepts, it reads as encoding/json does.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{
		`{"stream":"CORTEX_LOG","seq":12}`, `{"stream":"A","seq":0}`, `{"stream":"","seq":1}`, `{"stream":"A","seq":+1}`, `{"stream":"A","seq":01}`,
		`{"stream":"A","seq":18446744073709551616}`, `{"stream":"A","seq":1,"duplicate":true}`, `{"stream":"A","seq":1_0}`, `{"error":{"code":400}}`, `{"stream":"A\"","seq":1}`,
		`{"stream":"A","seq":1} `, "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		seq, ok := plain(b)
		var ack struct {
			Stream string `json:"stream"`
			Seq    uint64 `json:"seq"`
		}
		if err := json.Unmarshal(b, &ack); ok && (err != nil || ack.Seq != seq || ack.Stream == "") {
			t.Errorf("plain(%q) = %d; json: %+v, %v", b, seq, ack, err)
		}
	})
}

func TestPlainReadsAcknowledgements(t *testing.T) {
	if seq, ok := plain([]byte(`{"stream":"CORTEX_INBOX", "seq":7}`)); ok {
		t.Errorf("got %d for one that is written otherwise", seq)
	}
	if seq, ok := plain([]byte(`{"stream":"CORTEX_INBOX","seq":18446744073709551615}`)); !ok || seq != 1<<64-1 {
		t.Errorf("got %d, %t", seq, ok)
	}
}
