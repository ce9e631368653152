# SPDX-License-Identifier: MIT
# cmake -DREPLAY=... -DBACKEND=... -DCOMPARE=... -DCASE=... -DOUT=... -P replay_case.cmake
# Replays CASE into OUT on BACKEND and compares that with the file NAME.expected.safetensors beside CASE.
string(REGEX REPLACE "[.]safetensors$" ".expected.safetensors" expected "${CASE}")
file(REMOVE "${OUT}")
execute_process(COMMAND "${REPLAY}" --backend "${BACKEND}" "${CASE}" "${OUT}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${COMPARE}" "${OUT}" "${expected}" COMMAND_ERROR_IS_FATAL ANY)
