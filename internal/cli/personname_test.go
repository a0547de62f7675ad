package cli

import "testing"

func TestPersonName(t *testing.T) {
	for name, good := range map[string]bool{
		"ada": true, "cortexa": true, "agentha": true, "ops:ada": true,
		"cortex": false, "Cortex": false, "c\u043ertex": false, "user": false, "agent": false, "agent:evil": false, "\u0430gent:evil": false, "cortex:queue": false,
	} {
		if err := checkPersonName(name); (err == nil) != good {
			t.Errorf("checkPersonName(%q) = %v", name, err)
		}
	}
}
