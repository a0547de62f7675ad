package transport

import (
	"errors"
	"fmt"
)

// Share permits others to speak in the event's conversation, or revokes that. Only the owner of the conversation can send it, and the operator as
// [Cortex]. It has an effect where senders are authenticated; elsewhere everybody may speak anyway.
type Share struct {
	With   []string `json:"with,omitempty"`   // ids as in Event.From: "user:NAME" for people, or an agent's
	Revoke []string `json:"revoke,omitempty"` // ids, as With
}

// MaxShare bounds the ids of one Share.
const MaxShare = 64

func (s *Share) validate() error {
	switch n := len(s.With) + len(s.Revoke); {
	case n == 0:
		return errors.New("share: nobody is named")
	case n > MaxShare:
		return fmt.Errorf("share: %d are named, at most %d are allowed", n, MaxShare)
	}
	for _, list := range [][]string{s.With, s.Revoke} {
		for _, id := range list {
			if err := CheckID(id); err != nil {
				return fmt.Errorf("share: id %w", err)
			}
		}
	}
	return nil
}
