package records

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
)

// maxName is how many bytes the name of a folder may have, as file systems bound it.
const maxName = 255

// hashed is before the hash in the name of a folder, which is so long. An id that ends so has a hash, too, so that no id is the name of another one's folder.
const hashed, hashLength = "==", 32

// Folder returns the folder of an agent in dir, which is in dir whatever the id says: it may come from a file of somebody else, and name a path. The folder
// has the id as its name, or, if that is none, what is readable of it with its hash.
func Folder(dir, agentID string) string {
	if agentID != "." && len(agentID) <= maxName && filepath.IsLocal(agentID) && !strings.ContainsAny(agentID, "/\\\x00") && !endsHashed(agentID) {
		return filepath.Join(dir, agentID)
	}
	sum := sha256.Sum256([]byte(agentID))
	return filepath.Join(dir, strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, agentID[:min(len(agentID), 100)])+hashed+hex.EncodeToString(sum[:hashLength/2]))
}

func endsHashed(agentID string) bool {
	at := len(agentID) - hashLength - len(hashed)
	return at >= 0 && strings.HasPrefix(agentID[at:], hashed)
}
