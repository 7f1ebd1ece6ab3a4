// Precompiled for the tests of the rooms below the public interfaces (CMakeLists.txt).
#pragma once

#include "control.pb.h"
#include "public_pch.h"
