package simhash

import (
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/simhash"
)

// size implements kind.Kind, for documents whose fingerprints are spread.
func size(spec engine.Spec, c kind.Contents) (kind.Size, error) {
	h, err := headerOf(spec)
	if err != nil {
		return kind.Size{}, err
	}
	document := uint64(docBytes + c.IDBytes)
	perBlock := blockBytes/document + 1 // the last one may exceed it
	blocks := (c.Items+perBlock-1)/perBlock + 1
	return kind.Size{
		Memory:  simhash.Expected(h.distance, c.Items, c.IDBytes),
		File:    headBytes + c.Items*document + 8*blocks,
		Journal: uint64(slotsOf(c.IDBytes)) * kind.SlotBytes,
	}, nil
}
