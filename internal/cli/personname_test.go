package cli

import "testing"

func TestPersonName(t *testing.T) {
	for name, good := range map[string]bool{
		"ada": true, "cortexa": true, "agentha": true, "ops:ada": true,
		"cortex": false, "Cortex": false, "c\u043ertex": false, "user": false, "agent": false, "agent:evil": false, "\u0430gent:evil": false, "cortex:queue": false,
		"rtfs:anonymous": false, "RTFS:x": false, "rockbot:x": false, "agenthub/peer": false, "AgentHub/peer": false, "ops/agenthub": true,
	} {
		if err := checkPersonName(name); (err == nil) != good {
			t.Errorf("checkPersonName(%q) = %v", name, err)
		}
	}
}

func TestAgentName(t *testing.T) {
	for name, good := range map[string]bool{
		"weather": true, "agent": true, "agentha": true, "agent_x": true, "acme:weather": true,
		"agent:x": false, "agent:": false, "Agent:x": false, "\u0430gent:x": false, "user:x": false, "cortex:x": false, "agent:agent:x": false,
		"rtfs:anonymous": false, "rockbot:x": false, "r\u043eckbot:x": false, "rtfs": true, "rtfs.x": true,
	} {
		if err := checkAgentName(name); (err == nil) != good {
			t.Errorf("checkAgentName(%q) = %v", name, err)
		}
	}
}
