package view

import (
	"strconv"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

type ReplicaJSON struct {
	ID         string    `json:"id"`
	Process    string    `json:"process"`
	Since      time.Time `json:"since"`
	Partitions []int     `json:"partitions"`
}

// NewReplicaJSON converts an owner of partitions.
func NewReplicaJSON(o *transport.Owner) ReplicaJSON {
	return ReplicaJSON{o.ID, o.Label, o.Since, append([]int{}, o.Partitions...)}
}

// Ranges formats ordered numbers as ranges: 0-15, 32-47.
func Ranges(n []int) string {
	var parts []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		part := strconv.Itoa(n[i])
		if j > i {
			part += "-" + strconv.Itoa(n[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
