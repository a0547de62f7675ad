package anthropic_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestEndlessAnswersArePaced has an endpoint say more than anybody reads: it is not read as fast as it comes.
func TestEndlessAnswersArePaced(t *testing.T) {
	said := strings.Repeat(": "+strings.Repeat("x", 8000)+"\n", 4500)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for range 3 {
			var failed error
			for _, err := range says(t, 200, said).Generate(t.Context(), hello()) {
				failed = err
			}
			if failed == nil {
				t.Fatal("it was answered")
			}
		}
		if time.Since(began) == 0 {
			t.Error("three answers without an end were read without a pause")
		}
	})
}
