# SPDX-License-Identifier: MIT
# cmake -DREPLAY=... -DBACKEND=... -DCOMPARE=... -DCASE=... -DOUT=... -P replay_case.cmake
#       [-DTO_F32=program]
#
# Replays CASE into OUT on BACKEND and compares OUT with NAME.expected.safetensors beside CASE; with TO_F32, after
# converting both files to float.
string(REGEX REPLACE "[.]safetensors$" ".expected.safetensors" expected "${CASE}")
if(TO_F32)
  string(REGEX REPLACE "[.]safetensors$" ".case.safetensors" case_f32 "${OUT}")
  string(REGEX REPLACE "[.]safetensors$" ".expected.safetensors" expected_f32 "${OUT}")
  execute_process(COMMAND "${TO_F32}" "${CASE}" "${case_f32}" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${TO_F32}" "${expected}" "${expected_f32}" COMMAND_ERROR_IS_FATAL ANY)
  set(CASE "${case_f32}")
  set(expected "${expected_f32}")
endif()
file(REMOVE "${OUT}")
execute_process(COMMAND "${REPLAY}" --backend "${BACKEND}" "${CASE}" "${OUT}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${COMPARE}" "${OUT}" "${expected}" COMMAND_ERROR_IS_FATAL ANY)
