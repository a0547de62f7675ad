package persona

import (
	"encoding/json"
	"strings"
	"testing"
)

// The record of the longest task can be written, whatever its results are.
func TestMakeRoom(t *testing.T) {
	for name, result := range map[string]string{
		"short ones": strings.Repeat("it is shown whole\n", maxShown/18),
		"escaped":    strings.Repeat("\x01", maxShown),
		"long ones":  strings.Repeat("<", 4*maxShown),
	} {
		w := &work{r: &record{}}
		for range maxSteps {
			s := step{Calls: make([]call, maxCalls)}
			for i := range s.Calls {
				s.Calls[i] = call{Tool: "x", Input: json.RawMessage("{}"), State: done, Result: result}
			}
			w.r.Steps = append(w.r.Steps, s)
		}
		w.makeRoom()
		b, err := json.Marshal(w.r)
		if err != nil || len(b) > maxRecord {
			t.Errorf("%s: the record has %d bytes, want at most %d; %v", name, len(b), maxRecord, err)
		}
		if last := w.r.Steps[maxSteps-1].Calls[maxCalls-1].Result; last != result {
			t.Errorf("%s: the last result is not kept: %.200q", name, last)
		}
		w.makeRoom()
		if again, _ := json.Marshal(w.r); string(again) != string(b) {
			t.Errorf("%s: a second time changes it", name)
		}
	}
}
