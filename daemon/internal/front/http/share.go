package http

import (
	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/program/access"
	"github.com/cr-clawer/urifilter/daemon/internal/program/budget"
)

// What the other fronts of a daemon share with this one, so that all calls are counted together,
// refused for the same reasons, and bounded by one budget.

// Judge judges the batches of all fronts.
func (s *Server) Judge() *batch.Judge { return &s.judge }

// Access decides who may call.
func (s *Server) Access() *access.Guard { return s.access }

// Bodies bounds the bytes that the calls of all fronts have in memory.
func (s *Server) Bodies() *budget.Shared { return s.held }
